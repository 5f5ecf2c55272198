/**
 * Write a Windlass guest in JavaScript or TypeScript. Entry points: `defineReconciler` and `defineMapper`; the types and their
 * documentation are in `types/index.d.ts`.
 *
 * @module
 */

export { condition, setCondition } from './conditions.js';
export { config, now } from './config.js';
export { dependents } from './dependents.js';
export { ApiError, NotReady, Retry, TerminalError } from './errors.js';
export { defineMapper, defineReconciler, requeueAfter } from './export.js';
export { hasFinalizer, isDeleting } from './finalizers.js';
export { log } from './log.js';
export { FleetCluster, controllerOf, controllerReference, keyOf, kind, ownerReference, setController, setOwner } from './object.js';
export { operation, values } from './operation.js';
export { readiness } from './readiness.js';
