/**
 * The layer between a guest's functions and the contract's exports. Entry points: `defineReconciler` and `defineMapper`.
 *
 * @module
 */

/** @import { Gvk, Key, RawAction, RawFailure, RawMapper, RawReconciler, RawRequest } from '../types/contract.js' */
/** @import * as sdk from '../types/index.js' */

import * as check from './check.js';
import { Cluster, during } from './cluster.js';
import { description } from './describe.js';
import { ApiError, HttpStatusError, NotReady, Retry, TerminalError, explain as explained, milliseconds } from './errors.js';
import { log } from './log.js';
import { frames } from './stack.js';

/**
 * @param {sdk.ReconcilerDefinition} definition
 * @returns {RawReconciler}
 */
export function defineReconciler(definition) {
  return {
    describe() {
      try {
        return during(() => description(answered('describe', definition.describe())));
      } catch (error) {
        throw explain(error);
      }
    },

    reconcile({ cluster, key }, handle) {
      try {
        return during(() => action(answered('reconcile', definition.reconcile({ cluster, key: plain(key) }, new Cluster(handle)))));
      } catch (error) {
        if (error instanceof NotReady) {
          log.info('not ready yet', { why: error.message });
          return { tag: 'requeue-after-ms', val: error.after };
        }
        throw failure(error);
      }
    },
  };
}

/**
 * @param {Parameters<typeof sdk.defineMapper>[0]} map
 * @returns {RawMapper}
 */
export function defineMapper(map) {
  return {
    mapObjects(handle, kind, objects) {
      try {
        return during(() => {
          const cluster = new Cluster(handle);
          const parsed = objects.map((text) => JSON.parse(text));
          const requests = answered('map', map(cluster, readable(kind), parsed));
          return check.array('requests', requests ?? []).map((each, at) => request(`requests[${at}]`, each, cluster));
        });
      } catch (error) {
        throw explain(error);
      }
    },
  };
}

/** @param {sdk.Delay} delay */
export const requeueAfter = (delay) => ({ requeueAfterMs: milliseconds(delay) });

/**
 * The message for the host: with a line for each frame of where it was thrown, unless it is an error by which calls and reconciles end.
 *
 * @param {unknown} error
 */
function explain(error) {
  const isExpected = [NotReady, Retry, TerminalError].some((type) => error instanceof type);
  const at = error instanceof Error && !isExpected ? frames(error.stack ?? '') : [];
  return check.wellFormed([explained(error), ...at].join('\n'));
}

/**
 * Rejects a promise: the host would not wait for it.
 *
 * @template T
 * @param {string} what
 * @param {T} answer
 * @returns {T}
 */
function answered(what, answer) {
  if (typeof (/** @type {any} */ (answer)?.then) === 'function') {
    throw new TypeError(`${what} returned a promise: make it a plain function; every call of the SDK is synchronous`);
  }
  return answer;
}

/**
 * @param {unknown} answer
 * @returns {RawAction}
 */
function action(answer) {
  if (answer == null) return { tag: 'done' };
  const { requeueAfterMs } = check.bag('what reconcile returned', answer, ['requeueAfterMs']);
  return { tag: 'requeue-after-ms', val: check.whole('requeueAfterMs', requeueAfterMs) };
}

/**
 * What was thrown by mistake, by the failure that was made of it: for unit tests.
 *
 * @type {WeakMap<object, unknown>}
 */
export const mistakes = new WeakMap();

/**
 * @param {unknown} error
 * @returns {RawFailure}
 */
function failure(error) {
  /** @type {RawFailure} */
  const made = { tag: error instanceof TerminalError ? 'terminal' : 'retry', val: explain(error) };
  const isMeant = [ApiError, HttpStatusError, Retry, TerminalError].some((type) => error instanceof type);
  if (!isMeant) mistakes.set(made, error);
  return made;
}

/** @param {Gvk} kind */
const readable = ({ group, version, kind }) => ({ apiVersion: group === '' ? version : `${group}/${version}`, kind });

/** @param {Key} key */
const plain = ({ namespace, name }) => (namespace == null ? { name } : { namespace, name });

/**
 * @param {string} what
 * @param {unknown} value
 * @param {Cluster} cluster
 * @returns {RawRequest}
 */
function request(what, value, cluster) {
  const given = check.record(what, value);
  if (!('key' in given)) return { cluster: cluster.name, key: check.key(what, given) };
  return { cluster: check.optionalText(`${what}.cluster`, given.cluster) ?? cluster.name, key: check.key(`${what}.key`, given.key) };
}
