/**
 * The host's functions over lines of JSON: `guest-sdk/protocol.md`. Entry points: `cluster`, `fleet` and `http`, which are the contract's, and
 * `record` and `variant`, by which values become those of lines.
 *
 * @module
 */

/** @import { Fleet, Http, RawApiError, RawCluster, RawOperation, RawReply, RawResult } from '../../types/contract.js' */

/** @typedef {(called: unknown) => any} Call Sends `{"Call": …}`, and returns its answer. */

/** @typedef {Exclude<keyof RawCluster, 'name' | 'batch' | 'recordEvent'>} Verb */

/** The fields that have cases of enums and variants. */
const CASES = ['mode', 'projection', 'propagation', 'eventType', 'enqueue', 'clusters', 'changes'];

/** @type {Record<Verb, readonly string[]>} The arguments of the functions on a cluster. */
const ARGUMENTS = {
  get: ['kind', 'key', 'options'],
  list: ['kind', 'options'],
  create: ['kind', 'object', 'options'],
  update: ['kind', 'object', 'options'],
  patch: ['kind', 'key', 'patch_type', 'patch', 'options'],
  apply: ['kind', 'object', 'options'],
  delete: ['kind', 'key', 'options'],
  deleteCollection: ['kind', 'selection', 'options'],
};

/**
 * `json-patch` is `JsonPatch`.
 *
 * @param {string} word
 */
const camel = (word) => word.replace(/(?:^|-)(\w)/g, (_, letter) => letter.toUpperCase());

/**
 * `NotFound` is `not-found`.
 *
 * @param {string} word
 */
const kebab = (word) => word.replace(/\B[A-Z]/g, '-$&').toLowerCase();

/**
 * A case, or a list of cases.
 *
 * @param {any} value
 * @returns {unknown}
 */
export function variant(value) {
  if (Array.isArray(value)) return value.map(variant);
  if (typeof value === 'string') return camel(value);
  if (value?.tag === undefined) return value; // absent
  return value.val === undefined ? camel(value.tag) : { [camel(value.tag)]: value.val };
}

/**
 * @param {object} value
 * @returns {Record<string, unknown>}
 */
export function record(value) {
  const fields = Object.entries(value).map(([name, each]) => [
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    CASES.includes(name) ? variant(each) : each,
  ]);
  return Object.fromEntries(fields);
}

/**
 * @param {Verb} verb
 * @param {readonly any[]} values
 */
const sent = (verb, values) =>
  ARGUMENTS[verb].map((name, at) => {
    if (name === 'patch_type') return variant(values[at]);
    return typeof values[at] === 'string' ? values[at] : record(values[at]);
  });

/** @param {RawOperation} operation */
const operation = ({ tag, val }) => ({ [camel(tag)]: sent(tag, val) });

/**
 * @param {any} raw
 * @returns {RawApiError}
 */
const apiError = ({ code, http_status: httpStatus, reason, message, details, retry_after_ms: retryAfterMs }) => ({
  code: /** @type {RawApiError['code']} */ (kebab(code)),
  httpStatus,
  reason,
  message,
  details,
  retryAfterMs,
});

/** @param {any} raw */
const page = ({ items, continue_token: continueToken, resource_version: resourceVersion }) => ({ items, continueToken, resourceVersion });

/**
 * The value of a result, or its error in the contract's form.
 *
 * @param {any} answer
 */
function result(answer) {
  if (!('Err' in answer)) return answer.Ok;
  throw Object.assign(new Error(answer.Err.message), { payload: apiError(answer.Err) });
}

/**
 * The result of an operation of a batch.
 *
 * @param {any} answer
 * @returns {RawResult<RawReply>}
 */
function settled(answer) {
  if ('Err' in answer) return { tag: 'err', val: apiError(answer.Err) };
  const { Object: object, Page: listed } = answer.Ok;
  if (object !== undefined) return { tag: 'ok', val: { tag: 'object', val: object } };
  return { tag: 'ok', val: listed === undefined ? { tag: 'nothing' } : { tag: 'page', val: page(listed) } };
}

/**
 * @param {Call} call
 * @param {number} handle
 * @returns {RawCluster}
 */
export function cluster(call, handle) {
  /** @param {Verb} verb */
  const at =
    (verb) =>
    /** @param {any[]} values */
    (...values) => {
      const given = sent(verb, values).map((each, at) => [ARGUMENTS[verb][at], each]);
      return result(call({ [camel(verb)]: { cluster: handle, ...Object.fromEntries(given) } }));
    };
  return {
    name: () => call({ Name: { cluster: handle } }),
    get: at('get'),
    list: (...values) => page(at('list')(...values)),
    create: at('create'),
    update: at('update'),
    patch: at('patch'),
    apply: at('apply'),
    delete: at('delete'),
    deleteCollection: at('deleteCollection'),
    batch: (operations) => call({ Batch: { cluster: handle, operations: operations.map(operation) } }).map(settled),
    recordEvent: (event) => call({ RecordEvent: { cluster: handle, event: record(event) } }),
  };
}

/**
 * @param {Call} call
 * @returns {Fleet}
 */
export const fleet = (call) => ({
  clusters: (labelSelector) => result(call({ Clusters: { label_selector: labelSelector } })),
  open: (name) => cluster(call, result(call({ Open: { name } }))),
  batch: (operations) =>
    call({ BatchFleet: { operations: operations.map(([name, each]) => [name, operation(each)]) } }).map(settled),
});

/**
 * @param {Call} call
 * @returns {Http}
 */
export const http = (call) => ({
  send: ({ body, ...request }) => {
    const answer = result(call({ Http: { request: { ...record(request), body: Array.from(body) } } }));
    return { ...answer, body: Uint8Array.from(answer.body) };
  },
});
