/**
 * Why an object is not ready. Entry point: `readiness`.
 *
 * @module
 */

/** @import * as sdk from '../types/index.js' */

import { condition } from './conditions.js';
import { isDeleting } from './finalizers.js';

/** @type {Record<string, (object: sdk.KubernetesObject) => string | undefined>} By group and kind. */
const KNOWN = {
  'apps/Deployment': deployment,
  'apps/StatefulSet': statefulSet,
  '/Service': service,
  'batch/Job': job,
  '/PersistentVolumeClaim': ({ status }) => (status?.phase === 'Bound' ? undefined : 'it is not bound'),
};

/**
 * @param {sdk.KubernetesObject} object
 * @returns {string | undefined}
 */
export function readiness(object) {
  if (isDeleting(object)) return 'it is being deleted';
  const [group] = object.apiVersion.includes('/') ? object.apiVersion.split('/') : [''];
  return (KNOWN[`${group}/${object.kind}`] ?? other)(object);
}

/** @param {sdk.KubernetesObject} object */
function deployment(object) {
  const { spec, status = {} } = object;
  const { replicas = 0, updatedReplicas = 0, availableReplicas = 0 } = status;
  const wanted = spec?.replicas ?? 1;
  const progressing = condition(object, 'Progressing');
  if (isOlder(object, status)) return unseen(object);
  if (progressing?.status === 'False' && progressing.reason === 'ProgressDeadlineExceeded') return said(progressing);
  if (updatedReplicas < wanted) return `${updatedReplicas} of ${wanted} replicas are updated`;
  if (replicas > updatedReplicas) return `${replicas - updatedReplicas} old replicas are left`;
  if (availableReplicas < wanted) return `${availableReplicas} of ${wanted} replicas are available`;
  return undefined;
}

/** @param {sdk.KubernetesObject} object */
function statefulSet(object) {
  const { spec, status = {} } = object;
  const { updatedReplicas = 0, readyReplicas = 0 } = status;
  const wanted = spec?.replicas ?? 1;
  const strategy = spec?.updateStrategy;
  const updated = strategy?.type === 'OnDelete' ? 0 : wanted - (strategy?.rollingUpdate?.partition ?? 0);
  if (isOlder(object, status)) return unseen(object);
  if (updatedReplicas < updated) return `${updatedReplicas} of ${updated} replicas are updated`;
  if (readyReplicas < wanted) return `${readyReplicas} of ${wanted} replicas are ready`;
  return undefined;
}

/** @param {sdk.KubernetesObject} object */
function service({ spec, status }) {
  if (spec?.type !== 'LoadBalancer' || status?.loadBalancer?.ingress?.length > 0) return undefined;
  return 'its load balancer has no address';
}

/** @param {sdk.KubernetesObject} object */
function job(object) {
  const failed = condition(object, 'Failed');
  if (failed?.status === 'True') return said(failed);
  return condition(object, 'Complete')?.status === 'True' ? undefined : 'it is not complete';
}

/** @param {sdk.KubernetesObject} object */
function other(object) {
  const found = condition(object, 'Ready') ?? condition(object, 'Available');
  if (!found) return undefined;
  const { observedGeneration } = object.status;
  if (isOlder(object, found, true) || (observedGeneration !== undefined && isOlder(object, object.status))) return unseen(object);
  return found.status === 'True' ? undefined : said(found);
}

/**
 * Whether a status or a condition is of an older generation; `lenient` accepts one that names none.
 *
 * @param {sdk.KubernetesObject} object
 * @param {{ observedGeneration?: number }} part
 * @param {boolean} [lenient]
 */
function isOlder({ metadata: { generation = 0 } }, { observedGeneration }, lenient = false) {
  return observedGeneration === undefined ? !lenient && generation > 0 : observedGeneration < generation;
}

/** @param {sdk.KubernetesObject} object */
const unseen = ({ metadata }) => `its controller has not seen its generation ${metadata.generation}`;

/** @param {sdk.Condition} condition */
function said({ type, status, reason, message }) {
  return [reason, message].filter(Boolean).join(': ') || `its condition ${type} is ${status}`;
}
