/**
 * A cluster in memory, and its answers to a guest. Entry point: `TestCluster`; documented in `types/testing.d.ts`.
 *
 * @module
 */

/** @import { ListArguments, RawCluster, RawMapper, RawOperation, RawReconciler, RawReply, RawResult } from '../types/contract.js' */
/** @import * as sdk from '../types/index.js' */
/** @import * as testing from '../types/testing.js' */
/** @import { Fleet } from './memory.js' */

import * as check from './check.js';
import { Cluster } from './cluster.js';
import { OWNER } from './dependents.js';
import { ApiError } from './errors.js';
import { mapped, outcome, rawError, recorded } from './outcome.js';
import { fieldSelector, labelSelector } from './selector.js';
import { Store, invalid, keyOf } from './store.js';

/** Items of a page if the call sets no limit. */
const PAGE = 500;

/** @type {readonly testing.Verb[]} */
const READS = ['get', 'list'];

/** @type {readonly testing.Verb[]} */
const VERBS = [...READS, 'create', 'update', 'patch', 'apply', 'delete', 'deleteCollection'];

export class TestCluster {
  #fleet;
  #store = new Store();
  /** @type {{ verb: testing.Verb, error: ApiError }[]} */
  #failures = [];
  /** @type {Record<string, string>} */
  labels = {};
  /** @type {Record<string, string>} */
  properties = {};
  /** @type {testing.Recorded[]} */
  events = [];
  /** @type {testing.Verb[]} */
  calls = [];

  /**
   * @param {Fleet} fleet
   * @param {string} name
   */
  constructor(fleet, name) {
    this.#fleet = fleet;
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
    this.#store.put(check.gvk('object', object), structuredClone(object));
  }

  /**
   * @param {sdk.Kind} kind
   * @param {sdk.KeyLike} key
   */
  get(kind, key) {
    return structuredClone(this.#store.get(check.gvk('kind', kind), check.key('key', key)));
  }

  objects() {
    return structuredClone(this.#store.all());
  }

  /**
   * @param {sdk.Kind} kind
   * @param {sdk.KeyLike} key
   */
  remove(kind, key) {
    this.#store.remove(check.gvk('kind', kind), check.key('key', key));
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
   * @param {RawReconciler} reconciler
   * @param {sdk.KeyLike} key
   * @returns {testing.Outcome}
   */
  reconcile(reconciler, key) {
    const request = { cluster: this.name, key: check.key('key', key) };
    return this.#fleet.run(() => outcome(() => reconciler.reconcile(request, this.handle())));
  }

  /**
   * @param {RawReconciler} reconciler
   * @param {sdk.KeyLike} key
   */
  reconciledWrites(reconciler, key) {
    const before = this.writes;
    const came = this.reconcile(reconciler, key);
    if (came.outcome === 'retry' || came.outcome === 'terminal') throw new Error(came.message);
    return this.writes - before;
  }

  /**
   * @param {RawMapper} mapper
   * @param {sdk.Kind} kind
   * @param {readonly sdk.KubernetesObject[]} objects
   */
  map(mapper, kind, objects) {
    return this.#fleet.run(() => mapped(mapper, this.handle(), kind, objects));
  }

  /**
   * What the guest calls.
   *
   * @returns {RawCluster}
   */
  handle() {
    const store = this.#store;
    /** @type {RawCluster} */
    const handle = {
      name: () => this.name,
      get: (kind, key, { subresource, projection }) =>
        this.#call('get', () => {
          isStatus(subresource);
          const object = store.get(kind, key);
          return object && JSON.stringify(projected(object, projection));
        }),
      list: (kind, options) => this.#call('list', () => this.#page(kind, options)),
      create: (kind, object, { dryRun }) => this.#call('create', () => JSON.stringify(store.create(kind, JSON.parse(object), dryRun))),
      update: (kind, object, { subresource, dryRun }) =>
        this.#call('update', () => JSON.stringify(store.update(kind, JSON.parse(object), isStatus(subresource), dryRun))),
      patch: (kind, key, type, patch, { subresource, dryRun }) =>
        this.#call('patch', () => {
          if (type !== 'merge') throw invalid('a cluster in memory knows merge patches only');
          return JSON.stringify(store.patch(kind, key, JSON.parse(patch), isStatus(subresource), dryRun));
        }),
      apply: (kind, object, { subresource, dryRun }) =>
        this.#call('apply', () => JSON.stringify(store.apply(kind, JSON.parse(object), isStatus(subresource), dryRun))),
      delete: (kind, key, options) => this.#call('delete', () => store.delete(kind, key, options)),
      deleteCollection: (kind, selection, { dryRun }) =>
        this.#call('deleteCollection', () => {
          const keys = this.#selected(kind, selection).map(keyOf);
          if (!dryRun) keys.forEach((key) => store.remove(kind, key));
        }),
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
   * @template T
   * @param {testing.Verb} verb
   * @param {() => T} serve
   */
  #call(verb, serve) {
    this.calls.push(verb);
    const at = this.#failures.findIndex((failing) => failing.verb === verb);
    try {
      if (at >= 0) throw this.#failures.splice(at, 1)[0].error;
      return serve();
    } catch (error) {
      throw error instanceof ApiError ? thrown(error) : error;
    }
  }

  /**
   * @param {import('../types/contract.js').Gvk} kind
   * @param {{ namespace?: string, labelSelector?: string, fieldSelector?: string }} selection
   */
  #selected(kind, { namespace, ...selectors }) {
    const labelsMatch = labelSelector(selectors.labelSelector);
    const fieldsMatch = fieldSelector(selectors.fieldSelector);
    return this.#store.ofKind(kind).filter((object) => {
      const { metadata } = object;
      const isHere = namespace == null || metadata.namespace === namespace;
      return isHere && labelsMatch(metadata.labels) && fieldsMatch(object);
    });
  }

  /**
   * @param {import('../types/contract.js').Gvk} kind
   * @param {ListArguments} options
   */
  #page(kind, { index, continueToken, limit, projection, ...selection }) {
    if (index && index[0] !== OWNER) throw invalid('a cluster in memory has no indexes: list by label');
    const selected = this.#selected(kind, index ? { ...selection, labelSelector: `${OWNER}=${index[1]}` } : selection);
    const start = Number(continueToken ?? 0);
    if (!Number.isInteger(start)) throw invalid('the continue token is of another list');
    const end = Math.min(selected.length, start + (limit || PAGE));
    return {
      items: selected.slice(start, end).map((object) => JSON.stringify(projected(object, projection))),
      continueToken: end < selected.length ? String(end) : null,
      resourceVersion: String(this.#store.version),
    };
  }
}

/**
 * @param {string | undefined} subresource
 */
function isStatus(subresource) {
  if (subresource != null && subresource !== 'status') throw invalid(`a cluster in memory has no subresource "${subresource}"`);
  return subresource === 'status';
}

/**
 * @param {any} object
 * @param {'full' | 'metadata'} projection
 */
const projected = (object, projection) =>
  projection === 'full' ? object : { apiVersion: object.apiVersion, kind: object.kind, metadata: object.metadata };

/**
 * As the contract throws it.
 *
 * @param {ApiError} error
 */
export const thrown = (error) => Object.assign(new Error(error.message), { payload: rawError(error) });

/**
 * One operation of a batch. What the contract does not know as an error is thrown.
 *
 * @param {() => RawCluster} open
 * @param {RawOperation} operation
 * @returns {RawResult<RawReply>}
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
