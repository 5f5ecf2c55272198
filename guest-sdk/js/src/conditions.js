/**
 * Conditions in the status of an object. Entry points: `condition` and `setCondition`.
 *
 * @module
 */

/** @import * as sdk from '../types/index.js' */

import * as check from './check.js';
import { now } from './config.js';

const FIELDS = ['type', 'status', 'reason', 'message', 'observedGeneration'];
const STATUS = /** @type {const} */ (['True', 'False', 'Unknown']);

/**
 * @param {sdk.KubernetesObject} object
 * @param {string} type
 * @returns {sdk.Condition | undefined}
 */
export function condition(object, type) {
  return object.status?.conditions?.find((/** @type {sdk.Condition} */ each) => each.type === type);
}

/**
 * @param {sdk.KubernetesObject} object
 * @param {sdk.ConditionChange} change
 */
export function setCondition(object, change) {
  const given = check.bag('condition', change, FIELDS);
  const type = check.text('condition.type', given.type);
  const word = typeof given.status === 'boolean' ? (given.status ? 'True' : 'False') : given.status;
  const status = check.oneOf('condition.status', STATUS, word);
  const before = condition(object, type);
  const observedGeneration = given.observedGeneration ?? object.metadata.generation;
  const set = {
    type,
    status,
    ...(observedGeneration === undefined ? {} : { observedGeneration: check.whole('condition.observedGeneration', observedGeneration) }),
    reason: check.text('condition.reason', given.reason),
    message: check.text('condition.message', given.message ?? ''),
  };
  const same = before && Object.entries({ ...before, ...set }).every(([name, value]) => /** @type {any} */ (before)[name] === value);
  if (same && before.lastTransitionTime) return false;
  const lastTransitionTime = (before?.status === status && before.lastTransitionTime) || moment();
  const after = { ...before, ...set, lastTransitionTime };
  const conditions = object.status?.conditions ?? [];
  object.status = {
    ...object.status,
    conditions: before
      ? conditions.map((/** @type {sdk.Condition} */ each) => (each === before ? after : each))
      : [...conditions, after],
  };
  return true;
}

/** The time in whole seconds, as conditions have it. */
const moment = () => now().toISOString().replace(/\.\d+Z$/, 'Z');
