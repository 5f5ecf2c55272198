/**
 * Writes that happen only if something differs. Entry points: `ensure`, `createOrUpdate` and `setStatus`.
 *
 * @module
 */

/** @import * as sdk from '../types/index.js' */

import * as check from './check.js';
import { keyOf } from './object.js';

/** The annotation with the fingerprint of what was applied: by it a field is found that is no longer desired. */
export const APPLIED = 'windlass.dev/applied';

/**
 * @param {sdk.Cluster} cluster
 * @param {sdk.KubernetesObject} object
 * @returns {sdk.Written<any>}
 */
export function ensure(cluster, object) {
  const desired = stamped(object);
  const present = cluster.get(desired, desired);
  if (present && covers(present, desired)) return { effect: 'unchanged', object: present };
  const stored = cluster.apply(desired, { force: true });
  const same = present?.metadata.resourceVersion === stored.metadata.resourceVersion;
  return { effect: !present ? 'created' : same ? 'unchanged' : 'updated', object: stored };
}

/**
 * @param {sdk.Cluster} cluster
 * @param {sdk.Kind<any>} kind
 * @param {sdk.KeyLike} key
 * @param {(object: any) => void} change
 * @returns {sdk.Written<any>}
 */
export function createOrUpdate(cluster, { apiVersion, kind }, key, change) {
  const metadata = 'metadata' in key ? keyOf(key) : keyOf({ metadata: key });
  const present = cluster.get({ apiVersion, kind }, metadata);
  const object = present ? copy(present) : { apiVersion, kind, metadata };
  change(object);
  if (!present) return { effect: 'created', object: cluster.create(object) };
  if (equal(present, copy(object))) return { effect: 'unchanged', object: present };
  return { effect: 'updated', object: cluster.update(object) };
}

/**
 * @param {sdk.Cluster} cluster
 * @param {sdk.Kind<any>} kind
 * @param {sdk.KeyLike} key
 * @param {object} status
 * @returns {sdk.Written<any>}
 */
export function setStatus(cluster, kind, key, status) {
  return writeStatus(cluster, kind, key, cluster.get(kind, key), status);
}

/**
 * Patches what differs from an object that was read.
 *
 * @param {sdk.Cluster} cluster
 * @param {sdk.Kind<any>} kind
 * @param {sdk.KeyLike} key
 * @param {sdk.KubernetesObject | undefined} present
 * @param {object} status
 * @returns {sdk.Written<any>}
 */
export function writeStatus(cluster, kind, key, present, status) {
  const changed = difference(present?.status ?? {}, copy(status));
  if (present && Object.keys(changed).length === 0) return { effect: 'unchanged', object: present };
  const resourceVersion = present?.metadata.resourceVersion;
  const metadata = resourceVersion === undefined ? {} : { metadata: { resourceVersion } };
  const object = cluster.patch(kind, key, { ...metadata, status: changed }, { subresource: 'status' });
  return { effect: 'updated', object };
}

/**
 * A copy of an object with the fingerprint of its fields.
 *
 * @param {sdk.KubernetesObject} object
 * @returns {sdk.KubernetesObject}
 */
export function stamped(object) {
  const desired = copy(object);
  const { annotations } = desired.metadata;
  desired.metadata.annotations = { ...annotations, [APPLIED]: fingerprint(desired) };
  return desired;
}

/**
 * @template T
 * @param {T} value
 * @returns {T}
 */
const copy = (value) => JSON.parse(check.json('object', value));

/**
 * Whether an object has everything that is desired. The fingerprint is a field like another, so it was applied with the same fields.
 *
 * @param {any} present
 * @param {any} desired
 * @returns {boolean}
 */
export function covers(present, desired) {
  if (desired === null) return present == null;
  if (typeof desired !== 'object') return present === desired;
  if (Array.isArray(desired)) {
    return Array.isArray(present) && present.length === desired.length && desired.every((each, at) => covers(present[at], each));
  }
  if (typeof present !== 'object' || present === null || Array.isArray(present)) return false;
  return Object.entries(desired).every(([name, each]) => covers(present[name], each));
}

/**
 * Whether two values are the same; the order of fields does not matter.
 *
 * @param {any} one
 * @param {any} other
 * @returns {boolean}
 */
function equal(one, other) {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return one === other;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => name in other && equal(one[name], other[name]));
}

/**
 * The merge patch that gives `present` the fields of `desired`.
 *
 * @param {Record<string, any>} present
 * @param {Record<string, any>} desired
 */
function difference(present, desired) {
  /** @type {Record<string, any>} */
  const patch = {};
  for (const [name, value] of Object.entries(desired)) {
    const before = present[name];
    const both = [before, value].every((each) => typeof each === 'object' && each !== null && !Array.isArray(each));
    if (both) {
      const inner = difference(before, value);
      if (Object.keys(inner).length > 0) patch[name] = inner;
    } else if (value === null ? before != null : !equal(before, value)) patch[name] = value;
  }
  return patch;
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
