/**
 * What an object should be, and whether it is so already. Entry point: `desired`.
 *
 * A server may keep what is applied in another form: without an empty value, `1000m` as `1`, with a default for null. To compare with what it keeps would be
 * to apply at every reconcile. So an annotation of the object has two fingerprints: of what was applied, and, where the server keeps it in another form, of
 * what the object then had at those fields. The object is as desired while neither has changed.
 *
 * @module
 */

/** @import * as sdk from '../types/index.js' */

import * as check from './check.js';

/** The annotation with the fingerprints. */
const APPLIED = 'windlass.dev/applied';
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/**
 * An object as it should be.
 *
 * @typedef {object} Desired
 * @property {sdk.KubernetesObject} object without the fingerprints
 * @property {(present: sdk.KubernetesObject) => boolean} isHeldBy whether this was applied, and no field of it has changed since
 * @property {(present?: sdk.KubernetesObject) => sdk.KubernetesObject} next as it is applied to an object: what the server made of the same fields before, it
 *   will make again
 * @property {(present: sdk.KubernetesObject) => boolean} wasAppliedTo whether this was applied to an object, whatever the object is now
 * @property {(stored: sdk.KubernetesObject) => sdk.KubernetesObject} noted as it is applied once more, with a note of what the server has made of it, if
 *   that is another form
 */

/**
 * @param {sdk.KubernetesObject} given
 * @returns {Desired}
 */
export function desired(given) {
  const object = stripped(given);
  const print = fingerprint(object);
  const stamped = (/** @type {string | undefined} */ kept) => {
    const { metadata } = object;
    const annotations = { ...metadata.annotations, [APPLIED]: kept === undefined ? print : `${print}-${kept}` };
    return { ...object, metadata: { ...metadata, annotations } };
  };
  const keptIn = (/** @type {sdk.KubernetesObject} */ present) => fingerprint(keptOf(present, object));
  return {
    object,
    isHeldBy(present) {
      const [applied, kept] = note(present);
      // With a note of another form, only this form: else a change to one that the server kept before would not be seen.
      return applied === print && (kept === undefined ? covers(present, object) : kept === keptIn(present));
    },
    wasAppliedTo: (present) => note(present)[0] === print,
    next(present) {
      const [applied, kept] = note(present);
      return stamped(applied === print ? kept : undefined);
    },
    noted: (stored) => stamped(covers(stored, object) ? undefined : keptIn(stored)),
  };
}

/**
 * The fingerprints that an object has.
 *
 * @param {sdk.KubernetesObject} [object]
 * @returns {(string | undefined)[]}
 */
const note = (object) => object?.metadata?.annotations?.[APPLIED]?.split('-') ?? [];

/**
 * A copy without what is the server's to set, and with the data of a Secret in the one form in which it is kept.
 *
 * @param {sdk.KubernetesObject} given
 * @returns {sdk.KubernetesObject}
 */
function stripped(given) {
  /** @type {any} */
  const object = copy(given);
  delete object.metadata.creationTimestamp;
  if (object.metadata.annotations) delete object.metadata.annotations[APPLIED];
  else delete object.metadata.annotations; // the note is among them, so that null would not be what the object has
  if (object.status === null || (isObject(object.status) && Object.keys(object.status).length === 0)) delete object.status;
  const { apiVersion, kind, stringData } = object;
  const isSecret = apiVersion === 'v1' && kind === 'Secret' && isObject(stringData);
  if (isSecret && Object.values(stringData).every((each) => typeof each === 'string')) {
    const data = Object.entries(stringData).map(([name, text]) => [name, base64(/** @type {string} */ (text))]);
    object.data = { ...(isObject(object.data) ? object.data : {}), ...Object.fromEntries(data) };
    delete object.stringData;
  }
  return object;
}

/**
 * @template T
 * @param {T} value
 * @returns {T}
 */
export const copy = (value) => JSON.parse(check.json('object', value));

/**
 * @param {unknown} value
 * @returns {value is Record<string, any>}
 */
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Whether an object has everything that is desired.
 *
 * @param {any} present
 * @param {any} wanted
 * @returns {boolean}
 */
function covers(present, wanted) {
  if (wanted === null) return present == null;
  if (Array.isArray(wanted)) {
    return Array.isArray(present) && present.length === wanted.length && wanted.every((each, at) => covers(present[at], each));
  }
  if (!isObject(wanted)) return present === wanted;
  return isObject(present) && Object.entries(wanted).every(([name, each]) => covers(present[name], each));
}

/**
 * What an object has at the fields that are desired.
 *
 * @param {any} present
 * @param {any} wanted
 * @returns {any}
 */
function keptOf(present, wanted) {
  if (isObject(present) && isObject(wanted)) {
    return Object.fromEntries(Object.entries(wanted).map(([name, each]) => [name, keptOf(present[name], each)]));
  }
  if (Array.isArray(present) && Array.isArray(wanted) && present.length === wanted.length) {
    return wanted.map((each, at) => keptOf(present[at], each));
  }
  return present ?? null;
}

/** @param {string} text */
function base64(text) {
  /** @type {number[]} */
  const bytes = [];
  for (const each of text) utf8(/** @type {number} */ (each.codePointAt(0)), (byte) => bytes.push(byte));
  let made = '';
  for (let at = 0; at < bytes.length; at += 3) {
    const [one = 0, two = 0, three = 0] = bytes.slice(at, at + 3);
    const bits = (one << 16) | (two << 8) | three;
    for (let digit = 0; digit < 4; digit++) made += at + digit <= bytes.length ? DIGITS[(bits >> (18 - 6 * digit)) & 63] : '=';
  }
  return made;
}

/**
 * FNV-1a over the value, with sorted names: the same for equal values, in every language's SDK.
 *
 * @param {unknown} value
 */
export function fingerprint(value) {
  let hash = 0x811c9dc5;
  const byte = (/** @type {number} */ one) => (hash = Math.imul(hash ^ one, 0x01000193));
  const text = (/** @type {string} */ some) => {
    for (const each of some) utf8(/** @type {number} */ (each.codePointAt(0)), byte);
  };
  const walk = (/** @type {any} */ each) => {
    if (each === null) text('n');
    else if (typeof each === 'boolean') text(each ? 't' : 'f');
    else if (typeof each === 'number') text(`#${each};`);
    else if (typeof each === 'string') text(`"${each}\0`);
    else if (Array.isArray(each)) {
      text('[');
      each.forEach(walk);
      text(']');
    } else {
      text('{');
      for (const name of Object.keys(each).sort()) {
        text(`"${name}\0`);
        walk(each[name]);
      }
      text('}');
    }
  };
  walk(value);
  return (hash >>> 0).toString(16).padStart(8, '0');
}

/**
 * The bytes of a character: the engine has no TextEncoder.
 *
 * @param {number} code
 * @param {(byte: number) => void} byte
 */
function utf8(code, byte) {
  if (code < 0x80) return byte(code);
  const more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  byte((code >> (6 * more)) | [0xc0, 0xe0, 0xf0][more - 1]);
  for (let at = more - 1; at >= 0; at--) byte(((code >> (6 * at)) & 0x3f) | 0x80);
}
