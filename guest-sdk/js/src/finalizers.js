/**
 * Finalizers of objects. Entry points: `isDeleting`, `ensureFinalizer` and `removeFinalizer`.
 *
 * @module
 */

/** @import * as sdk from '../types/index.js' */

import * as check from './check.js';
import { ApiError } from './errors.js';
import { named } from './object.js';

/** @param {{ metadata: sdk.ObjectMeta }} object */
export const isDeleting = ({ metadata }) => metadata.deletionTimestamp != null;

/**
 * @param {{ metadata: sdk.ObjectMeta }} object
 * @param {string} finalizer
 */
export const hasFinalizer = ({ metadata }, finalizer) => metadata.finalizers?.includes(finalizer) ?? false;

/**
 * @param {sdk.Cluster} cluster
 * @param {sdk.KubernetesObject} object
 * @param {string} finalizer
 * @returns {sdk.Written<any>}
 */
export function ensureFinalizer(cluster, object, finalizer) {
  check.text('finalizer', finalizer);
  if (isDeleting(object) || hasFinalizer(object, finalizer)) return { effect: 'unchanged', object };
  return write(cluster, object, [...(object.metadata.finalizers ?? []), finalizer]);
}

/**
 * @param {sdk.Cluster} cluster
 * @param {sdk.KubernetesObject} object
 * @param {string} finalizer
 * @returns {sdk.Written<any>}
 */
export function removeFinalizer(cluster, object, finalizer) {
  if (!hasFinalizer(object, finalizer)) return { effect: 'unchanged', object };
  const others = object.metadata.finalizers?.filter((each) => each !== finalizer) ?? [];
  try {
    return write(cluster, object, others);
  } catch (error) {
    if (error instanceof ApiError && error.code === 'not-found') return { effect: 'unchanged', object };
    throw error;
  }
}

/**
 * Writes the list to the version that was read, so that no finalizer of another is lost.
 *
 * @param {sdk.Cluster} cluster
 * @param {sdk.KubernetesObject} object
 * @param {string[]} finalizers
 * @returns {sdk.Written<any>}
 */
function write(cluster, object, finalizers) {
  const { resourceVersion } = object.metadata;
  if (!resourceVersion) {
    const message = `${named(object)} has no resourceVersion: take an object that was read from a cluster`;
    throw new ApiError({ code: 'invalid', reason: 'Invalid', message });
  }
  return { effect: 'updated', object: cluster.patch(object, object, { metadata: { resourceVersion, finalizers } }) };
}
