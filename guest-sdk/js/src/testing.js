/**
 * Tests of a guest without WebAssembly. Entry points: `Fleet`, which is in memory, and `Script`; documented in `types/testing.d.ts`.
 *
 * @module
 */

/** @import { Host, RawApiError, RawCluster, RawHttpRequest, RawMapper, RawOperation, RawReconciler, RawReply, RawResult } from '../types/contract.js' */
/** @import * as sdk from '../types/index.js' */
/** @import * as testing from '../types/testing.js' */

import assert, { AssertionError } from 'node:assert';
import * as check from './check.js';
import { ApiError, printed } from './errors.js';
import { during } from './host/native.js';
import { rawRequest } from './http.js';
import { TestRequest } from './message.js';
import { deleting, madeHere, operation, selecting } from './operation.js';
import { mapped, outcome, rawError, recorded, said } from './outcome.js';
import { rawAnswer } from './testing/http.js';

export { TestCluster } from './testing/cluster.js';
export { Fleet } from './testing/fleet.js';

/** Names no cluster: the calls of `fleet` itself. */
const FLEET = Symbol('fleet');
/** Names no cluster: calls of servers that are no API servers. */
const HTTP = Symbol('http');

/**
 * A call. Its arguments have the contract's form, with every JSON text parsed.
 *
 * @typedef {{ of: string | symbol, call: string, with: any }} Call
 */

/**
 * What the contract's function returns or throws.
 *
 * @typedef {{ value: any } | { failure: RawApiError }} Answer
 */

/** @typedef {Call & { answer?: Answer }} Entry An expected call. */

export class Script {
  #config;
  #now;
  /** @type {Entry[]} */
  #expected = [];
  /** @type {Set<string>} */
  #clusters = new Set();
  /** @type {AssertionError | undefined} The first wrong call: a guest may catch its error. */
  #wrong;
  /** @type {testing.Recorded[]} */
  events = [];
  /** @type {testing.Line[]} */
  lines = [];

  /** @param {{ config?: unknown, now?: string | Date }} [options] */
  constructor(options) {
    const { config = {}, now = '2026-01-31T09:30:00.000Z' } = check.bag('options', options, ['config', 'now']);
    this.#config = JSON.stringify(config);
    this.#now = new Date(/** @type {string | Date} */ (now)).toISOString();
  }

  /** @returns {testing.ExpectedFleet} */
  get fleet() {
    return {
      clusters: ({ labelSelector } = {}) =>
        this.#expect(FLEET, 'clusters', [labelSelector], [], (infos) => ({ value: infos.map(rawInfo) })),
      open: (name) => this.#expect(FLEET, 'open', [name], NONE, (handle) => ({ value: handle })),
      batch: (operations) => {
        const sent = operations.map(([cluster, each]) => /** @type {const} */ ([cluster, madeHere('operations', each)]));
        const tags = sent.map(([, { tag }]) => tag);
        return this.#expect(FLEET, 'batch', [sent], NONE, (answers) => replies(tags, answers));
      },
    };
  }

  /** @returns {testing.ExpectedHttp} */
  get http() {
    return {
      send: (request) =>
        this.#expect(HTTP, 'send', [sent(rawRequest(request))], NONE, (answer) => ({ value: rawAnswer('answer', answer) })),
    };
  }

  /**
   * @param {string} name
   * @returns {testing.ExpectedCluster}
   */
  cluster(name) {
    this.#clusters.add(check.text('name', name));
    /**
     * @param {RawOperation} operation
     * @param {any} otherwise
     * @returns {any}
     */
    const expect = ({ tag, val }, otherwise) => this.#expect(name, tag, val, otherwise, (answer) => answered(tag, answer));
    return {
      get: (kind, key, options) => expect(operation.get(kind, key, options), undefined),
      list: (kind, options) => expect(operation.list(kind, options), []),
      create: (object, options) => expect(operation.create(object, options), object),
      update: (object, options) => expect(operation.update(object, options), object),
      updateStatus: (object, options) => expect(operation.update(object, { ...options, subresource: 'status' }), object),
      patch: (kind, key, patch, options) => expect(operation.patch(kind, key, patch, options), NONE),
      apply: (object, options) => expect(operation.apply(object, options), object),
      delete: (kind, key, options) => expect(operation.delete(kind, key, options), true),
      deleteCollection: (kind, selection, options) => {
        const args = [check.gvk('kind', kind), selecting(selection), deleting(options)];
        return this.#expect(name, 'deleteCollection', args, undefined, () => ({ value: undefined }));
      },
      batch: (operations) => {
        const sent = operations.map((each) => madeHere('operations', each));
        const tags = sent.map(({ tag }) => tag);
        return this.#expect(name, 'batch', [sent], NONE, (answers) => replies(tags, answers));
      },
    };
  }

  /**
   * @param {RawReconciler} reconciler
   * @param {sdk.Request} request
   * @returns {testing.Outcome}
   */
  reconcile(reconciler, { cluster, key }) {
    const request = { cluster: check.text('request.cluster', cluster), key: check.key('request.key', key) };
    return this.#run(() => outcome(() => reconciler.reconcile(request, this.#handle(cluster))));
  }

  /** @param {RawReconciler} reconciler */
  describe(reconciler) {
    return this.#run(() => said(() => reconciler.describe()));
  }

  /**
   * @param {RawMapper} mapper
   * @param {string} cluster
   * @param {sdk.Kind} kind
   * @param {readonly sdk.KubernetesObject[]} objects
   */
  map(mapper, cluster, kind, objects) {
    return this.#run(() => mapped(mapper, this.#handle(cluster), kind, objects));
  }

  /**
   * Runs a call of the guest. An error of the script takes precedence over the guest's result.
   *
   * @template T
   * @param {() => T} call
   * @returns {T}
   */
  #run(call) {
    this.#wrong = undefined;
    /** @type {T} */
    let came;
    try {
      came = during(this.#host(), call);
    } catch (error) {
      const left = this.#expected.splice(0);
      if (this.#wrong) throw this.#wrong;
      throw left.length > 0 ? unmade(left, `it threw ${printed(error)}`, error) : error;
    }
    const left = this.#expected.splice(0);
    if (this.#wrong) throw this.#wrong;
    if (left.length > 0) throw unmade(left, `it came to ${printed(came)}`);
    return came;
  }

  /**
   * @param {Call['of']} of
   * @param {string} call
   * @param {any[]} args
   * @param {any} otherwise
   * @param {(answer: any) => Answer} lowered
   * @returns {any}
   */
  #expect(of, call, args, otherwise, lowered) {
    /** @type {Entry} */
    const entry = { of, call, with: readable(args), answer: otherwise === NONE ? undefined : lowered(otherwise) };
    this.#expected.push(entry);
    return {
      /** @param {any} answer */
      answers(answer) {
        entry.answer = lowered(answer);
      },
      /**
       * @param {sdk.ApiCode} code
       * @param {{ message?: string, status?: number, reason?: string, details?: any, retryAfter?: number }} [rest]
       */
      fails(code, rest = {}) {
        entry.answer = { failure: rawError(new ApiError({ code, message: 'as the script says', ...rest })) };
      },
    };
  }

  /**
   * @param {string} message
   * @param {Partial<AssertionError>} [rest]
   * @returns {never}
   */
  #fail(message, rest = {}) {
    const error = new AssertionError({ message, actual: rest.actual, expected: rest.expected, operator: rest.operator });
    this.#wrong ??= error;
    throw error;
  }

  /**
   * Answers a call of the guest.
   *
   * @param {Call['of']} of
   * @param {string} call
   * @param {any[]} args
   * @returns {any}
   */
  #answer(of, call, args) {
    const actual = { of, call, with: readable(args) };
    const next = this.#expected.shift();
    if (!next) return this.#fail(`the guest made a call that the script does not expect: ${shown(actual)}`);
    try {
      const { of, call, with: args } = next;
      assert.deepStrictEqual(actual, { of, call, with: args });
    } catch (error) {
      this.#fail(
        `the guest made another call than the script expects:\n  ${shown(actual)}\ninstead of\n  ${shown(next)}`,
        /** @type {AssertionError} */ (error),
      );
    }
    if (!next.answer) return this.#fail(`${shown(next)} has no answer: give it one with .answers(…)`);
    if ('value' in next.answer) return next.answer.value;
    const { failure } = next.answer;
    throw Object.assign(new Error(failure.message), { payload: failure });
  }

  /**
   * @param {string} cluster
   * @returns {RawCluster}
   */
  #handle(cluster) {
    /** @param {string} call */
    const at =
      (call) =>
      /** @param {any[]} args */
      (...args) =>
        this.#answer(cluster, call, args);
    return {
      name: () => cluster,
      get: at('get'),
      list: at('list'),
      create: at('create'),
      update: at('update'),
      patch: at('patch'),
      apply: at('apply'),
      delete: at('delete'),
      deleteCollection: at('deleteCollection'),
      batch: at('batch'),
      recordEvent: (event) => {
        this.events.push(recorded(cluster, event));
      },
    };
  }

  /** @returns {Host} */
  #host() {
    return {
      config: () => this.#config,
      now: () => this.#now,
      log: (level, message, fields) => {
        this.lines.push({ level, message, fields: Object.fromEntries(fields) });
      },
      fleet: {
        clusters: (selector) => this.#answer(FLEET, 'clusters', [selector]),
        open: (name) => {
          const next = this.#expected[0];
          const scripted = next?.of === FLEET && next.call === 'open';
          return this.#clusters.has(name) && !scripted ? this.#handle(name) : this.#answer(FLEET, 'open', [name]);
        },
        batch: (operations) => this.#answer(FLEET, 'batch', [operations]),
      },
      http: { send: (request) => this.#answer(HTTP, 'send', [sent(request)]) },
    };
  }
}

/**
 * The error for expected calls that were not made.
 *
 * @param {readonly Call[]} left
 * @param {string} came
 * @param {unknown} [cause]
 */
function unmade(left, came, cause) {
  const calls = left.map((each) => `  ${shown(each)}`).join('\n');
  const message = `the guest did not make ${left.length === 1 ? 'this call' : 'these calls'}:\n${calls}\n${came}`;
  return Object.assign(new AssertionError({ message }), cause === undefined ? {} : { cause });
}

/** Marks a missing answer. */
const NONE = Symbol('none');

/**
 * A request as it is compared and shown.
 *
 * @param {RawHttpRequest} raw
 */
function sent(raw) {
  const { method, url, headers, timeoutMs } = raw;
  return { method, url, headers, timeoutMs, body: raw.body.length > 0 ? new TestRequest(raw).text() : undefined };
}

/** @param {import('../types/fleet.js').ClusterInfo} info */
const rawInfo = ({ name, labels, properties, ready }) => ({
  name,
  labels: Object.entries(labels),
  properties: Object.entries(properties),
  ready,
});

/**
 * The result or the error of the contract's function, for a result of its method.
 *
 * @param {RawOperation['tag']} tag
 * @param {any} answer
 * @returns {Answer}
 */
function answered(tag, answer) {
  switch (tag) {
    case 'get':
      return { value: answer === undefined ? null : JSON.stringify(answer) };
    case 'list': {
      const { items = [], continueToken = null, resourceVersion = '1' } = Array.isArray(answer) ? { items: answer } : answer;
      return { value: { items: items.map((/** @type {any} */ item) => JSON.stringify(item)), continueToken, resourceVersion } };
    }
    case 'delete':
      return answer
        ? { value: undefined }
        : { failure: rawError(new ApiError({ code: 'not-found', message: 'there is none', status: 404, reason: 'NotFound' })) };
    default:
      return { value: JSON.stringify(answer) };
  }
}

/**
 * @param {readonly RawOperation['tag'][]} tags
 * @param {readonly any[]} answers
 * @returns {{ value: RawResult<RawReply>[] }}
 */
function replies(tags, answers) {
  if (answers.length !== tags.length)
    throw new TypeError(`a batch of ${tags.length} operations needs as many answers, not ${answers.length}`);
  return { value: tags.map((tag, at) => reply(tag, answers[at])) };
}

/**
 * @param {RawOperation['tag']} tag
 * @param {any} answer
 * @returns {RawResult<RawReply>}
 */
function reply(tag, answer) {
  if (answer instanceof ApiError) return { tag: 'err', val: rawError(answer) };
  const came = answered(tag, answer);
  if (tag === 'delete' || !('value' in came) || came.value === null) return { tag: 'ok', val: { tag: 'nothing' } };
  return { tag: 'ok', val: tag === 'list' ? { tag: 'page', val: came.value } : { tag: 'object', val: came.value } };
}

/**
 * Arguments in the form in which they are compared and shown: JSON texts are parsed, absent values are left out.
 *
 * @param {unknown} value
 * @returns {any}
 */
function readable(value) {
  if (typeof value === 'string' && /^[{[]/.test(value)) {
    try {
      return JSON.parse(value);
    } catch {
      return value;
    }
  }
  if (Array.isArray(value)) return value.map(readable);
  if (typeof value !== 'object' || value === null) return value;
  const there = Object.entries(value).filter(([, each]) => each !== undefined);
  return Object.fromEntries(there.map(([name, each]) => [name, readable(each)]));
}

/**
 * A call as text for people.
 *
 * @param {Call} call
 */
function shown({ of, call, with: args }) {
  const printedArguments = /** @type {any[]} */ (args).map((each) => JSON.stringify(each)).join(', ');
  return `${typeof of === 'symbol' ? of.description : `cluster ${JSON.stringify(of)}`}.${call}(${printedArguments})`;
}
