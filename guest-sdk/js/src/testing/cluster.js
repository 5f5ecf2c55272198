/**
 * A cluster of a test, and its answers to a guest. Entry point: `TestCluster`; documented in `types/testing.d.ts`.
 *
 * @module
 */

/** @import * as contract from '../../types/contract.js' */
/** @import * as sdk from '../../types/index.js' */
/** @import * as testing from '../../types/testing.js' */
/** @import { Fleet } from './fleet.js' */
/** @import { Host } from './host.js' */

import * as check from '../check.js';
import { Cluster } from '../cluster.js';
import { OWNER } from '../dependents.js';
import { ApiError } from '../errors.js';
import { cluster as clusterOf } from '../host/wire.js';
import { mapped, outcome, recorded, thrown } from '../outcome.js';

/** @type {readonly testing.Verb[]} */
const READS = ['get', 'list'];

/** @type {readonly testing.Verb[]} */
const VERBS = [...READS, 'create', 'update', 'patch', 'apply', 'delete', 'deleteCollection'];

export class TestCluster {
  #fleet;
  #host;
  /** @type {{ verb: testing.Verb, error: ApiError }[]} */
  #failures = [];
  /** @type {testing.Recorded[]} */
  events = [];
  /** @type {testing.Verb[]} */
  calls = [];

  /**
   * @param {Fleet} fleet
   * @param {Host} host
   * @param {string} name
   */
  constructor(fleet, host, name) {
    this.#fleet = fleet;
    this.#host = host;
    this.name = name;
  }

  get writes() {
    return this.calls.filter((verb) => !READS.includes(verb)).length;
  }

  get client() {
    return new Cluster(this.handle());
  }

  /** @param {sdk.KubernetesObject} object */
  put(object) {
    check.gvk('object', object);
    this.#host.test({ Put: { cluster: this.name, object: check.json('object', object) } });
  }

  /**
   * @param {sdk.Kind} kind
   * @param {sdk.KeyLike} key
   * @param {object} patch
   */
  patch(kind, key, patch) {
    this.#host.test({ Merge: { ...this.#about(kind, key), patch: check.record('patch', patch) } });
  }

  /**
   * @param {sdk.Kind} kind
   * @param {sdk.KeyLike} key
   */
  get(kind, key) {
    return this.#host.test({ Stored: this.#about(kind, key) }) ?? undefined;
  }

  objects() {
    return this.#host.test({ Objects: { cluster: this.name } });
  }

  /**
   * @param {sdk.Kind} kind
   * @param {sdk.KeyLike} key
   */
  remove(kind, key) {
    this.#host.test({ Remove: this.#about(kind, key) });
  }

  /** @param {Record<string, string | null>} labels */
  label(labels) {
    this.#host.test({ Label: { cluster: this.name, labels: check.record('labels', labels) } });
  }

  leave() {
    this.#host.test({ Leave: { cluster: this.name } });
    this.#fleet.forget(this.name);
  }

  /** @param {testing.ServerFailure} failure */
  fail(failure) {
    check.oneOf('failure', ['unreachable', 'errors'], failure);
    this.#host.test({ Fail: { cluster: this.name, failure: failure === 'errors' ? 'Errors' : 'Unreachable' } });
  }

  heal() {
    this.#host.test({ Fail: { cluster: this.name, failure: null } });
  }

  /**
   * @param {testing.Verb} verb
   * @param {ApiError} error
   */
  failNext(verb, error) {
    check.oneOf('verb', VERBS, verb);
    if (!(error instanceof ApiError)) throw new TypeError('error: expected an ApiError');
    this.#failures.push({ verb, error });
  }

  /**
   * @param {contract.RawReconciler} reconciler
   * @param {sdk.KeyLike} key
   * @returns {testing.Outcome}
   */
  reconcile(reconciler, key) {
    const request = { cluster: this.name, key: check.key('key', key) };
    return this.#fleet.run(() => outcome(() => reconciler.reconcile(request, this.handle())));
  }

  /**
   * @param {contract.RawReconciler} reconciler
   * @param {sdk.KeyLike} key
   */
  reconciledWrites(reconciler, key) {
    const before = this.writes;
    const came = this.reconcile(reconciler, key);
    if (came.outcome === 'retry' || came.outcome === 'terminal') throw new Error(came.message);
    return this.writes - before;
  }

  /**
   * @param {contract.RawMapper} mapper
   * @param {sdk.Kind} kind
   * @param {readonly sdk.KubernetesObject[]} objects
   */
  map(mapper, kind, objects) {
    return this.#fleet.run(() => mapped(mapper, this.handle(), kind, objects));
  }

  /**
   * What the guest calls. An operation of a batch is a call of its own.
   *
   * @returns {contract.RawCluster}
   */
  handle() {
    /** @param {testing.Verb} verb */
    const at =
      (verb) =>
      /** @param {any[]} values */
      (...values) =>
        this.#call(verb, values);
    /** @type {contract.RawCluster} */
    const handle = {
      name: () => this.name,
      get: at('get'),
      list: at('list'),
      create: at('create'),
      update: at('update'),
      patch: at('patch'),
      apply: at('apply'),
      delete: at('delete'),
      deleteCollection: at('deleteCollection'),
      batch: (operations) => operations.map((operation) => replied(() => handle, operation)),
      recordEvent: (event) => {
        this.events.push(recorded(this.name, event));
      },
    };
    return handle;
  }

  /**
   * Counts a call, and fails it if the test asked for that.
   *
   * @param {testing.Verb} verb
   * @param {any[]} values
   */
  #call(verb, values) {
    this.calls.push(verb);
    const at = this.#failures.findIndex((failing) => failing.verb === verb);
    if (at >= 0) throw thrown(this.#failures.splice(at, 1)[0].error);
    const sent = verb === 'list' ? [values[0], unindexed(values[1])] : values;
    const raw = clusterOf((called) => this.#host.call(called), this.#host.handle(this.name));
    return /** @type {any} */ (raw[verb])(...sent);
  }

  /**
   * @param {sdk.Kind} kind
   * @param {sdk.KeyLike} key
   */
  #about(kind, key) {
    return { cluster: this.name, kind: check.gvk('kind', kind), ...check.key('key', key) };
  }
}

/**
 * The same list without the index of dependents: a fleet of tests watches nothing, so it has no indexes.
 *
 * @param {contract.ListArguments} options
 * @returns {contract.ListArguments}
 */
function unindexed(options) {
  const { index, labelSelector, ...rest } = options;
  if (index === undefined) return options;
  const [name, uid] = index;
  if (name === OWNER) return { ...rest, labelSelector: `${OWNER}=${uid}` };
  const message = `a fleet of tests has no index ${JSON.stringify(name)}: list by label, or use \`windlass test\``;
  throw thrown(new ApiError({ code: 'invalid', reason: 'Invalid', status: 422, message }));
}

/**
 * One operation of a batch. What the contract does not know as an error is thrown.
 *
 * @param {() => contract.RawCluster} open
 * @param {contract.RawOperation} operation
 * @returns {contract.RawResult<contract.RawReply>}
 */
export function replied(open, { tag, val }) {
  try {
    const came = /** @type {any} */ (open())[tag](...val);
    if (came == null) return { tag: 'ok', val: { tag: 'nothing' } };
    return { tag: 'ok', val: tag === 'list' ? { tag: 'page', val: came } : { tag: 'object', val: came } };
  } catch (error) {
    const { payload } = /** @type {any} */ (error);
    if (payload === undefined) throw error;
    return { tag: 'err', val: payload };
  }
}
