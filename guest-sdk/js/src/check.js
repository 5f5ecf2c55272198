/**
 * Checks the values that a guest passes to the host: there a wrong shape traps, and a wrong number becomes another number. Each check takes a
 * name for its message, and returns the value.
 *
 * @module
 */

/** @import { Gvk, Key } from '../types/contract.js' */

/** The largest number of the contract. */
export const MOST = 4294967295;

/**
 * @param {string} what
 * @param {string} wanted
 * @param {unknown} value
 */
function wrong(what, wanted, value) {
  const shown =
    typeof value === 'string' ? JSON.stringify(value) : value === null ? 'null' : `${Array.isArray(value) ? 'an array' : typeof value}`;
  return new TypeError(`${what}: expected ${wanted}, got ${shown}`);
}

/**
 * Replaces each surrogate without its other half by U+FFFD: the host traps on such a surrogate.
 *
 * @param {string} value
 */
export const wellFormed = (value) => value.replace(/[\ud800-\udfff]/gu, '\ufffd');

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {string}
 */
export function text(what, value) {
  if (typeof value !== 'string') throw wrong(what, 'a string', value);
  return wellFormed(value);
}

/**
 * @param {string} what
 * @param {unknown} value
 */
export const optionalText = (what, value) => (value == null ? undefined : text(what, value));

/**
 * @param {string} what
 * @param {unknown} value
 */
export function flag(what, value = false) {
  if (typeof value !== 'boolean') throw wrong(what, 'true or false', value);
  return value;
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {number}
 */
export function number(what, value) {
  if (typeof value !== 'number') throw wrong(what, 'a number', value);
  return value;
}

/**
 * A whole number that the contract can carry.
 *
 * @param {string} what
 * @param {unknown} value
 * @returns {number}
 */
export function whole(what, value) {
  const given = number(what, value);
  if (!Number.isInteger(given) || given < 0 || given > MOST)
    throw new RangeError(`${what}: expected a whole number from 0 to ${MOST}, got ${given}`);
  return given;
}

/**
 * @template {string} W
 * @param {string} what
 * @param {readonly W[]} words
 * @param {unknown} value
 * @returns {W}
 */
export function oneOf(what, words, value) {
  const word = words.find((word) => word === value);
  if (word === undefined) throw wrong(what, `one of ${words.join(', ')}`, value);
  return word;
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {readonly unknown[]}
 */
export function array(what, value = []) {
  if (!Array.isArray(value)) throw wrong(what, 'an array', value);
  return value;
}

/**
 * An object with only these properties: the host would ignore a misspelt option.
 *
 * @param {string} what
 * @param {unknown} value
 * @param {readonly string[]} known
 * @returns {Record<string, unknown>}
 */
export function bag(what, value, known) {
  const given = record(what, value ?? {});
  const odd = Object.keys(given).find((name) => !known.includes(name));
  if (odd !== undefined) throw new TypeError(`${what}: there is no ${odd}; known are ${known.join(', ')}`);
  return given;
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {Record<string, unknown>}
 */
export function record(what, value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(what, 'an object', value);
  return /** @type {Record<string, unknown>} */ (value);
}

/**
 * The kind that an object or a kind names.
 *
 * @param {string} what
 * @param {unknown} value
 * @returns {Gvk}
 */
export function gvk(what, value) {
  const given = record(what, value);
  const apiVersion = text(`${what}.apiVersion`, given.apiVersion);
  const [version = '', group = '', ...more] = apiVersion.split('/').reverse();
  if (version === '' || more.length > 0) throw wrong(`${what}.apiVersion`, '"v1" or "group/version"', apiVersion);
  return { group, version, kind: text(`${what}.kind`, given.kind) };
}

/**
 * The key that an object or a key names.
 *
 * @param {string} what
 * @param {unknown} value
 * @returns {Key}
 */
export function key(what, value) {
  const given = record(what, value);
  const { namespace, name } = 'metadata' in given ? record(`${what}.metadata`, given.metadata) : given;
  return { namespace: optionalText(`${what}.namespace`, namespace), name: text(`${what}.name`, name) };
}

/**
 * An object or a patch as JSON. Rejects numbers that JSON.stringify would change: NaN and Infinity become null, which removes
 * a field in a merge patch, and a whole number beyond 2⁵³ may have been rounded when it was read.
 *
 * @param {string} what
 * @param {unknown} value
 */
export function json(what, value) {
  if (typeof value !== 'object' || value === null) throw wrong(what, 'an object', value);
  return anyJson(what, value);
}

/**
 * The same of any value, such as a text.
 *
 * @param {string} what
 * @param {unknown} value
 * @returns {string}
 */
export function anyJson(what, value) {
  const written = JSON.stringify(value, (_, each) => {
    if (typeof each === 'number' && !exact(each)) throw inexact(what, /** @type {object} */ (value), each);
    return each;
  });
  if (written === undefined) throw wrong(what, 'a value that JSON has', value);
  // JSON.stringify escapes a surrogate without its other half; a backslash is two in JSON.
  if (!written.includes('\\ud')) return written;
  return written.replace(/\\(?:\\|ud[89a-f][0-9a-f]{2})/g, (escape) => (escape === '\\\\' ? escape : '\ufffd'));
}

/** @param {number} number */
const exact = (number) => Number.isFinite(number) && (Number.isSafeInteger(number) || !Number.isInteger(number));

/**
 * @param {string} what
 * @param {object} value
 * @param {number} number
 */
function inexact(what, value, number) {
  const at = `${what}${pathOf(value, number) ?? ''}`;
  if (!Number.isFinite(number)) return new RangeError(`${at}: expected a finite number, got ${number}`);
  return new RangeError(
    `${at}: ${number} is beyond 2⁵³, where numbers are not exact: write what you own by apply or patch, without this field`,
  );
}

/**
 * The path of a number that JSON.stringify has found. So the value contains no cycle.
 *
 * @param {object} value
 * @param {number} number
 * @returns {string | undefined}
 */
function pathOf(value, number) {
  for (const [name, each] of Object.entries(value)) {
    const step = Array.isArray(value) ? `[${name}]` : `.${name}`;
    if (Object.is(each, number)) return step;
    const below = typeof each === 'object' && each !== null ? pathOf(each, number) : undefined;
    if (below !== undefined) return step + below;
  }
  return undefined;
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {[string, string][]}
 */
export function pairs(what, value = {}) {
  return Object.entries(record(what, value)).map(([name, value]) => [name, text(`${what}.${name}`, value)]);
}
