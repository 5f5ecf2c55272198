/**
 * Kinds, keys and owners of plain objects. Entry points: `kind`, `keyOf`, `controllerReference`.
 *
 * @module
 */

/** @import * as sdk from '../types/index.js' */

import { text } from './check.js';
import { ApiError } from './errors.js';

/**
 * @param {string} apiVersion
 * @param {string} kind
 */
export const kind = (apiVersion, kind) => Object.freeze({ apiVersion: text('apiVersion', apiVersion), kind: text('kind', kind) });

export const FleetCluster = kind('fleet.windlass.dev/v1alpha1', 'Cluster');

/** @param {{ metadata: sdk.ObjectKey }} object */
export function keyOf({ metadata: { namespace, name } }) {
  return namespace == null ? { name } : { namespace, name };
}

/**
 * Kind, namespace and name, for people.
 *
 * @param {sdk.KubernetesObject} object
 */
export function named({ kind, metadata: { namespace, name } }) {
  return `${kind} ${namespace == null ? name : `${namespace}/${name}`}`;
}

/**
 * @param {sdk.KubernetesObject} owner
 * @returns {sdk.OwnerReference}
 */
export function controllerReference({ apiVersion, kind, metadata: { name, uid } }) {
  if (uid === undefined) throw new TypeError(`${kind} ${name} has no uid: take an owner that was read from a cluster`);
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/**
 * @param {sdk.KubernetesObject} owner
 * @returns {sdk.OwnerReference}
 */
export function ownerReference(owner) {
  const { apiVersion, kind, name, uid } = controllerReference(owner);
  return { apiVersion, kind, name, uid };
}

/**
 * @param {sdk.KubernetesObject} object
 * @param {sdk.KubernetesObject} owner
 */
export function setOwner(object, owner) {
  const reference = ownerReference(owner);
  checkNamespace(object, owner);
  const { metadata } = object;
  const before = metadata.ownerReferences ?? [];
  if (!before.some(({ uid }) => uid === reference.uid)) metadata.ownerReferences = [...before, reference];
}

/**
 * @param {sdk.KubernetesObject} object
 * @param {sdk.KubernetesObject} owner
 */
export function setController(object, owner) {
  const reference = controllerReference(owner);
  checkNamespace(object, owner);
  const { metadata } = object;
  const other = controllerOf(object);
  if (other && other.uid !== reference.uid) {
    throw new ApiError({
      code: 'conflict',
      reason: 'AlreadyOwned',
      message: `${named(object)} has a controller already: ${other.kind} ${other.name}`,
    });
  }
  const before = metadata.ownerReferences ?? [];
  const there = before.some(({ uid }) => uid === reference.uid);
  metadata.ownerReferences = there ? before.map((each) => (each.uid === reference.uid ? reference : each)) : [...before, reference];
}

/**
 * The garbage collector looks for an owner in the namespace of what it owns.
 *
 * @param {sdk.KubernetesObject} object
 * @param {sdk.KubernetesObject} owner
 */
function checkNamespace(object, owner) {
  const { namespace } = owner.metadata;
  if (namespace == null || namespace === object.metadata.namespace) return;
  const message = `${named(object)} cannot be owned by ${named(owner)}: an owner is of the same namespace, or of none`;
  throw new ApiError({ code: 'invalid', reason: 'Invalid', message });
}

/** @param {{ metadata: sdk.ObjectMeta }} object */
export const controllerOf = ({ metadata }) => metadata.ownerReferences?.find((reference) => reference.controller);
