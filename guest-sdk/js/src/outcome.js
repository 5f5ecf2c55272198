/**
 * What tests see of a guest: its results, and what it recorded. Entry points: `outcome`, `mapped` and `recorded`.
 *
 * @module
 */

/** @import { RawAction, RawApiError, RawCluster, RawEvent, RawFailure, RawMapper } from '../types/contract.js' */
/** @import * as sdk from '../types/index.js' */
/** @import * as testing from '../types/testing.js' */

import * as check from './check.js';
import { mistakes } from './export.js';

/**
 * How a reconcile ended. What the guest threw by mistake is thrown: a test that looks at something else would not see it.
 *
 * @param {() => RawAction} reconcile
 * @returns {testing.Outcome}
 */
export function outcome(reconcile) {
  try {
    const action = reconcile();
    return action.tag === 'done' ? { outcome: 'done' } : { outcome: 'requeue', afterMs: action.val };
  } catch (thrown) {
    if (mistakes.has(/** @type {object} */ (thrown))) throw mistakes.get(/** @type {object} */ (thrown));
    const { tag, val } = /** @type {RawFailure} */ (thrown);
    if (tag !== 'retry' && tag !== 'terminal') throw thrown;
    return { outcome: tag, message: val };
  }
}

/**
 * The requests of a mapper.
 *
 * @param {RawMapper} mapper
 * @param {RawCluster} cluster
 * @param {sdk.Kind} kind
 * @param {readonly sdk.KubernetesObject[]} objects
 * @returns {sdk.Request[]}
 */
export function mapped(mapper, cluster, kind, objects) {
  const texts = objects.map((object) => check.json('object', object));
  const requests = said(() => mapper.mapObjects(cluster, check.gvk('kind', kind), texts));
  return requests.map(({ cluster, key: { namespace, name } }) => ({ cluster, key: namespace == null ? { name } : { namespace, name } }));
}

/**
 * Runs a call that throws a text, as `describe` and mappers do, and throws an error instead.
 *
 * @template T
 * @param {() => T} call
 * @returns {T}
 */
export function said(call) {
  try {
    return call();
  } catch (thrown) {
    throw typeof thrown === 'string' ? new Error(thrown) : thrown;
  }
}

/**
 * An event that a guest recorded.
 *
 * @param {string} cluster
 * @param {RawEvent} event
 * @returns {testing.Recorded}
 */
export function recorded(cluster, { kind: { group, version, kind }, key: { namespace, name }, eventType: type, reason, action, note }) {
  const apiVersion = group === '' ? version : `${group}/${version}`;
  const about = { apiVersion, kind, ...(namespace == null ? {} : { namespace }), name };
  return { cluster, about, type, reason, action, note };
}

/**
 * An error in the contract's form.
 *
 * @param {import('./errors.js').ApiError} error
 * @returns {RawApiError}
 */
export function rawError({ code, message, status, reason, details, retryAfter }) {
  return {
    code,
    httpStatus: status,
    reason,
    message,
    details: details === undefined ? null : JSON.stringify(details),
    retryAfterMs: retryAfter ?? null,
  };
}

/**
 * An error as the contract's functions throw it.
 *
 * @param {import('./errors.js').ApiError} error
 */
export const thrown = (error) => Object.assign(new Error(error.message), { payload: rawError(error) });
