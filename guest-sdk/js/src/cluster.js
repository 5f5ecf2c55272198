/**
 * One cluster's API. Entry points: `Cluster`, and `during`, which closes the handles of a call.
 *
 * @module
 */

/** @import { RawCluster } from '../types/contract.js' */
/** @import * as sdk from '../types/index.js' */

import * as check from './check.js';
import { createOrUpdate, ensure, setStatus } from './desired.js';
import { ApiError, calling } from './errors.js';
import { ensureFinalizer, removeFinalizer } from './finalizers.js';
import { deleting, madeHere, operation, page, selecting, settle } from './operation.js';
import { begun } from './random.js';

/** @type {RawCluster[]} The handles of the call that runs; the host calls a guest once at a time. */
const handles = [];

/**
 * Runs a call of the host and then closes its handles: in a reused instance they would wait for the garbage collector.
 *
 * @template T
 * @param {() => T} call
 * @returns {T}
 */
export function during(call) {
  begun();
  try {
    return call();
  } finally {
    // Handles of the engine have this method, handles of a script have not.
    for (const handle of handles.splice(0)) /** @type {Partial<Disposable>} */ (handle)[Symbol.dispose]?.();
  }
}

const EVENTS = /** @type {const} */ (['normal', 'warning']);

export class Cluster {
  /** @type {RawCluster} */
  #raw;

  /** @param {RawCluster} raw */
  constructor(raw) {
    this.#raw = raw;
    handles.push(raw);
  }

  get name() {
    return this.#raw.name();
  }

  /**
   * @param {sdk.Kind<any>} kind
   * @param {sdk.KeyLike} key
   * @param {sdk.GetOptions} [options]
   */
  get(kind, key, options) {
    const { val } = operation.get(kind, key, options);
    const found = calling(() => this.#raw.get(...val));
    return found == null ? undefined : JSON.parse(found);
  }

  /**
   * @param {sdk.Kind<any>} kind
   * @param {sdk.ListOptions} [options]
   */
  list(kind, options) {
    const { val } = operation.list(kind, options);
    return page(calling(() => this.#raw.list(...val)));
  }

  /**
   * @param {sdk.Kind<any>} kind
   * @param {sdk.ListOptions} [options]
   */
  *listAll(kind, options = {}) {
    let { continueToken } = options;
    do {
      const page = this.list(kind, { ...options, continueToken });
      yield* page.items;
      ({ continueToken } = page);
    } while (continueToken !== undefined);
  }

  /**
   * @param {sdk.KubernetesObject} object
   * @param {sdk.WriteOptions} [options]
   */
  create(object, options) {
    const { val } = operation.create(object, options);
    return JSON.parse(calling(() => this.#raw.create(...val)));
  }

  /**
   * @param {sdk.KubernetesObject} object
   * @param {sdk.WriteOptions} [options]
   */
  update(object, options) {
    const { val } = operation.update(object, options);
    return JSON.parse(calling(() => this.#raw.update(...val)));
  }

  /**
   * @param {sdk.KubernetesObject} object
   * @param {sdk.WriteOptions} [options]
   */
  updateStatus(object, options) {
    return this.update(object, { ...options, subresource: 'status' });
  }

  /**
   * @param {sdk.Kind<any>} kind
   * @param {sdk.KeyLike} key
   * @param {object} patch
   * @param {sdk.PatchOptions} [options]
   */
  patch(kind, key, patch, options) {
    const { val } = operation.patch(kind, key, patch, options);
    return JSON.parse(calling(() => this.#raw.patch(...val)));
  }

  /**
   * @param {sdk.KubernetesObject} object
   * @param {sdk.ApplyOptions} [options]
   */
  apply(object, options) {
    const { val } = operation.apply(object, options);
    return JSON.parse(calling(() => this.#raw.apply(...val)));
  }

  /**
   * @param {sdk.Kind} kind
   * @param {sdk.KeyLike} key
   * @param {sdk.DeleteOptions} [options]
   */
  delete(kind, key, options) {
    const { val } = operation.delete(kind, key, options);
    try {
      calling(() => this.#raw.delete(...val));
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.code === 'not-found') return false;
      throw error;
    }
  }

  /**
   * @param {sdk.Kind} kind
   * @param {sdk.Selection} [selection]
   * @param {sdk.DeleteOptions} [options]
   */
  deleteCollection(kind, selection, options) {
    const of = check.gvk('kind', kind);
    const [selected, how] = [selecting(selection), deleting(options)];
    calling(() => this.#raw.deleteCollection(of, selected, how));
  }

  /**
   * @param {sdk.Kind & { metadata: sdk.ObjectKey }} about
   * @param {string} reason
   * @param {string} note
   * @param {sdk.EventOptions} [options]
   */
  event(about, reason, note, options) {
    const { type = 'normal', action = 'Reconcile' } = check.bag('options', options, ['type', 'action']);
    this.#raw.recordEvent({
      kind: check.gvk('about', about),
      key: check.key('about', about),
      eventType: check.oneOf('type', EVENTS, type),
      reason: check.text('reason', reason),
      action: check.text('action', action),
      note: check.text('note', note),
    });
  }

  /** @param {sdk.KubernetesObject} object */
  ensure(object) {
    return ensure(this, object);
  }

  /**
   * @param {sdk.Kind<any>} kind
   * @param {sdk.KeyLike} key
   * @param {(object: any) => void} change
   */
  createOrUpdate(kind, key, change) {
    return createOrUpdate(this, kind, key, change);
  }

  /**
   * @param {sdk.Kind<any>} kind
   * @param {sdk.KeyLike} key
   * @param {object} status
   */
  setStatus(kind, key, status) {
    return setStatus(this, kind, key, status);
  }

  /**
   * @param {sdk.KubernetesObject} object
   * @param {string} finalizer
   */
  ensureFinalizer(object, finalizer) {
    return ensureFinalizer(this, object, finalizer);
  }

  /**
   * @param {sdk.KubernetesObject} object
   * @param {string} finalizer
   */
  removeFinalizer(object, finalizer) {
    return removeFinalizer(this, object, finalizer);
  }

  /** @param {readonly any[]} operations */
  batch(operations) {
    const sent = check.array('operations', operations).map((each, at) => madeHere(`operations[${at}]`, each));
    return settle(this.#raw.batch(sent));
  }
}
