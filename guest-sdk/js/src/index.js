/**
 * Write a Windlass guest in JavaScript or TypeScript. Entry points: `defineReconciler` and `defineMapper`; the types and their
 * documentation are in `types/index.d.ts`.
 *
 * @module
 */

export { config, now } from './config.js';
export { ApiError, TerminalError } from './errors.js';
export { defineMapper, defineReconciler, requeueAfter } from './export.js';
export { log } from './log.js';
export { controllerOf, controllerReference, keyOf, kind, setController } from './object.js';
export { operation, values } from './operation.js';
