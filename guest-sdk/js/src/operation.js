/**
 * Converts calls to a cluster into the contract's form, and their results into values. Entry points: `operation`, which also makes
 * the arguments of every method, `settle` and `values`.
 *
 * @module
 */

/** @import { DeleteArguments, ListArguments, RawOperation, RawPage, RawReply, RawResult, RawSelection, WriteArguments } from '../types/contract.js' */
/** @import * as sdk from '../types/index.js' */

import * as check from './check.js';
import { apiError } from './errors.js';

const WRITE = ['subresource', 'dryRun'];
const DELETE = ['uid', 'resourceVersion', 'propagation', 'gracePeriodSeconds', 'dryRun'];
const PROPAGATIONS = /** @type {const} */ (['background', 'foreground', 'orphan']);
const PATCHES = /** @type {const} */ (['json-patch', 'merge', 'strategic-merge']);

/**
 * @param {Record<string, unknown>} given
 * @returns {WriteArguments}
 */
const writing = (given) => ({
  subresource: check.optionalText('subresource', given.subresource),
  dryRun: check.flag('dryRun', given.dryRun),
});

/**
 * @param {unknown} options
 * @returns {DeleteArguments}
 */
export function deleting(options) {
  const given = check.bag('options', options, DELETE);
  return {
    uid: check.optionalText('uid', given.uid),
    resourceVersion: check.optionalText('resourceVersion', given.resourceVersion),
    propagation: given.propagation == null ? undefined : check.oneOf('propagation', PROPAGATIONS, given.propagation),
    gracePeriodSeconds: given.gracePeriodSeconds == null ? undefined : check.whole('gracePeriodSeconds', given.gracePeriodSeconds),
    dryRun: check.flag('dryRun', given.dryRun),
  };
}

/**
 * @param {unknown} selection
 * @returns {RawSelection}
 */
export function selecting(selection) {
  const given = check.bag('selection', selection, ['namespace', 'labelSelector', 'fieldSelector']);
  return {
    namespace: check.optionalText('namespace', given.namespace),
    labelSelector: check.optionalText('labelSelector', given.labelSelector),
    fieldSelector: check.optionalText('fieldSelector', given.fieldSelector),
  };
}

/**
 * @param {Record<string, unknown>} given
 * @returns {Pick<ListArguments, 'mode' | 'projection'>}
 */
const reading = (given) => ({
  mode: check.flag('live', given.live) ? 'live' : 'cached',
  projection: check.flag('metadataOnly', given.metadataOnly) ? 'metadata' : 'full',
});

/**
 * @param {unknown} index
 * @returns {[string, string] | undefined}
 */
function indexed(index) {
  if (index == null) return undefined;
  const [name, value, ...more] = check.array('index', index);
  if (more.length > 0) throw new TypeError('index: expected a name and a value');
  return [check.text('index[0]', name), check.text('index[1]', value)];
}

/** @type {WeakSet<object>} Operations made here: any other value in a batch would trap. */
const made = new WeakSet();

/**
 * @template {RawOperation} O
 * @param {O} operation
 * @returns {O}
 */
function make(operation) {
  made.add(operation);
  return operation;
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {RawOperation}
 */
export function madeHere(what, value) {
  if (!made.has(check.record(what, value))) throw new TypeError(`${what}: expected a call made by operation.get, operation.list, …`);
  return /** @type {RawOperation} */ (value);
}

export const operation = {
  /**
   * @param {unknown} kind
   * @param {unknown} key
   * @param {unknown} [options]
   * @returns {RawOperation & { tag: 'get' }}
   */
  get(kind, key, options) {
    const given = check.bag('options', options, ['live', 'metadataOnly', 'subresource']);
    const subresource = check.optionalText('subresource', given.subresource);
    return make({ tag: 'get', val: [check.gvk('kind', kind), check.key('key', key), { ...reading(given), subresource }] });
  },

  /**
   * @param {unknown} kind
   * @param {unknown} [options]
   * @returns {RawOperation & { tag: 'list' }}
   */
  list(kind, options) {
    const given = check.bag('options', options, [
      'namespace', 'labelSelector', 'fieldSelector', 'index', 'limit', 'continueToken', 'live', 'metadataOnly',
    ]); // prettier-ignore
    const { namespace, labelSelector, fieldSelector, index, limit = 0, continueToken } = given;
    const listed = {
      ...selecting({ namespace, labelSelector, fieldSelector }),
      index: indexed(index),
      limit: check.whole('limit', limit),
      continueToken: check.optionalText('continueToken', continueToken),
      ...reading(given),
    };
    return make({ tag: 'list', val: [check.gvk('kind', kind), listed] });
  },

  /**
   * @param {unknown} object
   * @param {unknown} [options]
   * @returns {RawOperation & { tag: 'create' }}
   */
  create(object, options) {
    const given = check.bag('options', options, WRITE);
    return make({ tag: 'create', val: [check.gvk('object', object), check.json('object', object), writing(given)] });
  },

  /**
   * @param {unknown} object
   * @param {unknown} [options]
   * @returns {RawOperation & { tag: 'update' }}
   */
  update(object, options) {
    const given = check.bag('options', options, WRITE);
    return make({ tag: 'update', val: [check.gvk('object', object), check.json('object', object), writing(given)] });
  },

  /**
   * @param {unknown} kind
   * @param {unknown} key
   * @param {unknown} patch
   * @param {unknown} [options]
   * @returns {RawOperation & { tag: 'patch' }}
   */
  patch(kind, key, patch, options) {
    const given = check.bag('options', options, ['type', ...WRITE]);
    const type = check.oneOf('type', PATCHES, given.type ?? (Array.isArray(patch) ? 'json-patch' : 'merge'));
    return make({
      tag: 'patch',
      val: [check.gvk('kind', kind), check.key('key', key), type, check.json('patch', patch), writing(given)],
    });
  },

  /**
   * @param {unknown} object
   * @param {unknown} [options]
   * @returns {RawOperation & { tag: 'apply' }}
   */
  apply(object, options) {
    const given = check.bag('options', options, ['force', ...WRITE]);
    const applied = { ...writing(given), force: check.flag('force', given.force) };
    return make({ tag: 'apply', val: [check.gvk('object', object), check.json('object', object), applied] });
  },

  /**
   * @param {unknown} kind
   * @param {unknown} key
   * @param {unknown} [options]
   * @returns {RawOperation & { tag: 'delete' }}
   */
  delete(kind, key, options) {
    return make({ tag: 'delete', val: [check.gvk('kind', kind), check.key('key', key), deleting(options)] });
  },
};

/**
 * A page in the guest's form.
 *
 * @param {RawPage} raw
 * @returns {sdk.Page<any>}
 */
export function page({ items, continueToken, resourceVersion }) {
  return {
    items: items.map((text) => JSON.parse(text)),
    ...(continueToken == null ? {} : { continueToken }),
    resourceVersion,
  };
}

/**
 * The result of each operation of a batch.
 *
 * @param {readonly RawResult<RawReply>[]} results
 * @returns {any}
 */
export function settle(results) {
  return results.map((result) => {
    if (result.tag === 'ok') return { status: 'fulfilled', value: value(result.val) };
    return { status: 'rejected', reason: apiError(result.val) };
  });
}

/** @param {RawReply} reply */
function value(reply) {
  switch (reply.tag) {
    case 'object':
      return JSON.parse(reply.val);
    case 'page':
      return page(reply.val);
    case 'nothing':
      return undefined;
  }
}

/**
 * @param {readonly sdk.Result<any>[]} results
 * @returns {any}
 */
export function values(results) {
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}
