/**
 * Writes that happen only if something differs. Entry points: `ensure`, `createOrUpdate` and `setStatus`.
 *
 * @module
 */

/** @import * as sdk from '../types/index.js' */

import { copy, desired } from './applied.js';
import { ApiError } from './errors.js';
import { keyOf, named } from './object.js';

/**
 * @param {sdk.Cluster} cluster
 * @param {sdk.KubernetesObject} object
 * @returns {sdk.Written<any>}
 */
export function ensure(cluster, object) {
  const wanted = desired(object);
  const present = cluster.get(wanted.object, wanted.object);
  if (present && wanted.isHeldBy(present)) return { effect: 'unchanged', object: present };
  const applied = cluster.apply(wanted.next(present), { force: true });
  const stored = wanted.isHeldBy(applied) ? applied : cluster.apply(wanted.noted(applied), { force: true });
  return { effect: present ? 'updated' : 'created', object: stored };
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
  try {
    const object = cluster.patch(kind, key, { ...metadata, status: changed }, { subresource: 'status' });
    return { effect: 'updated', object };
  } catch (error) {
    // A server answers the same for an object that is gone.
    if (!(error instanceof ApiError) || error.code !== 'not-found' || !present || !cluster.get(kind, key, { live: true })) throw error;
    const message = `${named(present)}: its kind has no subresource status, which its definition has to name`;
    throw new ApiError({ code: 'invalid', reason: 'Invalid', message });
  }
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
