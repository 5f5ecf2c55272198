/**
 * The objects that a primary object should have. Entry point: `dependents`.
 *
 * @module
 */

/** @import * as sdk from '../types/index.js' */

import * as check from './check.js';
import { setCondition } from './conditions.js';
import { desired as asDesired } from './applied.js';
import { writeStatus } from './desired.js';
import { ApiError } from './errors.js';
import { requeueAfter } from './export.js';
import { ensureFinalizer, hasFinalizer, isDeleting, removeFinalizer } from './finalizers.js';
import { kind, named, setController } from './object.js';
import { operation } from './operation.js';
import { Pass, identity, isDefinition, isKind, plain, remove, summary } from './pass.js';
import { readiness } from './readiness.js';

/** The label with the owner's uid, and the index of it. */
export const OWNER = 'windlass.dev/owner';
const READY = 'all dependents are ready';

/**
 * @param {sdk.DependentsOptions} options
 * @returns {sdk.Dependents}
 */
export function dependents(options) {
  const given = check.bag('options', options, ['kinds', 'recreate', 'finalizer', 'ready', 'recheck']);
  const kindsOf = (/** @type {string} */ name, /** @type {unknown} */ value) =>
    check.array(name, value).map((each) => {
      const { apiVersion, kind: name } = /** @type {sdk.Kind} */ (each);
      return kind(apiVersion, name);
    });
  const kinds = kindsOf('kinds', given.kinds);
  const recreate = kindsOf('recreate', given.recreate ?? []);
  for (const each of recreate) {
    if (!kinds.some((other) => isKind(other, each))) throw invalid(`recreate: ${each.kind} is not among the kinds of the dependents`);
  }
  const { finalizer, ready = readiness, recheck = 10_000 } = /** @type {any} */ (given);
  const own = { kinds, recreate, finalizer, ready, recheck };
  return {
    watches: kinds.map((kind) => ({ kind, enqueue: /** @type {const} */ ('controller-owner') })),
    indexes: kinds.map((kind) => ({ kind, name: OWNER, path: `metadata.labels['${OWNER}']` })),
    reconcile(cluster, primary, desired, more) {
      const { status = {}, cleanup = () => {} } = /** @type {any} */ (check.bag('options', more, ['status', 'cleanup']));
      if (isDeleting(primary)) return end(own, cluster, primary, cleanup);
      return keep(own, cluster, primary, desired, status);
    },
  };
}

/** @typedef {{ kinds: sdk.Kind[], recreate: sdk.Kind[], finalizer?: string, ready: (object: any) => string | undefined, recheck: sdk.Delay }} Own */

/**
 * Brings the dependents of a living object to their desired state.
 *
 * @param {Own} own
 * @param {sdk.Cluster} cluster
 * @param {sdk.KubernetesObject} primary
 * @param {readonly sdk.KubernetesObject[]} objects
 * @param {object} status
 * @returns {sdk.Requeue | undefined}
 */
function keep(own, cluster, primary, objects, status) {
  const wanted = objects.map((object) => prepared(own, primary, object));
  const names = new Set();
  for (const { object } of wanted) {
    if (names.has(identity(object))) throw invalid(`${named(object)}: it is desired twice`);
    names.add(identity(object));
  }
  if (own.finalizer !== undefined) ensureFinalizer(cluster, primary, own.finalizer);
  const pass = new Pass(own, cluster, wanted, ofOwner(own, cluster, primary));
  pass.applyAll();
  pass.deleteOthers();
  const failed = pass.failed();
  if (failed) {
    try {
      report(cluster, primary, 'ApplyFailed', failed.message);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      failed.message += `; and the status cannot be written: ${plain(error)}`;
    }
    throw failed;
  }
  const waiting = [...pass.waiting, ...pass.notReady()];
  if (waiting.length === 0) return void report(cluster, primary, 'Ready', READY, status);
  report(cluster, primary, 'NotReady', `waits for ${summary(waiting)}`, status);
  return requeueAfter(own.recheck);
}

/**
 * Ends the dependents of an object that is being deleted. The garbage collector takes those that the object owns.
 *
 * @param {Own} own
 * @param {sdk.Cluster} cluster
 * @param {sdk.KubernetesObject} primary
 * @param {() => void} cleanup
 * @returns {sdk.Requeue | undefined}
 */
function end(own, cluster, primary, cleanup) {
  if (own.finalizer === undefined || !hasFinalizer(primary, own.finalizer)) return undefined;
  cleanup();
  const isOwned = (/** @type {sdk.KubernetesObject} */ object) =>
    object.metadata.ownerReferences?.some(({ uid }) => uid === primary.metadata.uid) ?? false;
  let left = ofOwner(own, cluster, primary).filter((object) => !isOwned(object));
  const removed = remove(cluster, left);
  for (const { error } of removed) if (error) throw error;
  if (removed.length > 0) left = ofOwner(own, cluster, primary).filter((object) => !isOwned(object));
  if (left.length > 0) {
    report(cluster, primary, 'Deleting', `waits for the deletion of ${summary(left.map(named))}`);
    return requeueAfter(own.recheck);
  }
  removeFinalizer(cluster, primary, own.finalizer);
  return undefined;
}

/**
 * A desired object as it is applied: with its owner, or the label alone where it cannot have one.
 *
 * @param {Own} own
 * @param {sdk.KubernetesObject} primary
 * @param {sdk.KubernetesObject} object
 */
function prepared({ kinds, finalizer }, primary, object) {
  if (!kinds.some((kind) => isKind(kind, object))) {
    throw invalid(`${named(object)}: its kind is not among those of the dependents`);
  }
  const { namespace, uid } = primary.metadata;
  const metadata = { ...object.metadata, labels: { ...object.metadata.labels, [OWNER]: check.text('uid of the owner', uid) } };
  const made = { ...object, metadata };
  if (namespace == null || namespace === metadata.namespace) setController(made, primary);
  else if (finalizer === undefined) {
    throw invalid(`${named(object)} cannot be owned by ${named(primary)}: give the dependents a finalizer`);
  }
  return asDesired(made);
}

/**
 * The dependents that exist. There are none of a kind that is not served, if definitions are dependents too, or at the end.
 *
 * @param {Own} own
 * @param {sdk.Cluster} cluster
 * @param {sdk.KubernetesObject} primary
 * @returns {sdk.KubernetesObject[]}
 */
function ofOwner({ kinds }, cluster, primary) {
  const mayLack = isDeleting(primary) || kinds.some(isDefinition);
  const index = /** @type {[string, string]} */ ([OWNER, primary.metadata.uid]);
  const pages = /** @type {any[]} */ (cluster.batch(kinds.map((kind) => operation.list(kind, { index }))));
  return pages.flatMap((result, at) => {
    if (result.status === 'rejected') {
      if (result.reason.code === 'unknown-kind' && mayLack) return [];
      throw result.reason;
    }
    const { items, continueToken } = result.value;
    return continueToken === undefined ? items : [...items, ...cluster.listAll(kinds[at], { index, continueToken })];
  });
}

/**
 * Writes the conditions `Ready` and `Progressing`.
 *
 * @param {sdk.Cluster} cluster
 * @param {sdk.KubernetesObject} primary
 * @param {'Ready' | 'NotReady' | 'ApplyFailed' | 'Deleting'} reason
 * @param {string} message
 * @param {object} [status]
 */
function report(cluster, primary, reason, message, status = {}) {
  const present = cluster.get(primary, primary);
  if (!present) return;
  const { generation: observedGeneration } = primary.metadata;
  const next = { ...present, status: { ...present.status } };
  const ready = reason === 'Ready';
  setCondition(next, { type: 'Ready', status: ready, reason, message, observedGeneration });
  setCondition(next, { type: 'Progressing', status: !ready, reason, message, observedGeneration });
  writeStatus(cluster, primary, primary, present, { ...status, conditions: next.status.conditions });
}

/** @param {string} message */
const invalid = (message) => new ApiError({ code: 'invalid', reason: 'Invalid', message });
