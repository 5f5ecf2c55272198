/**
 * A fleet in memory, for tests of a guest without WebAssembly. Entry point: `Fleet`; documented in `types/testing.d.ts`.
 *
 * @module
 */

/** @import * as contract from '../../types/contract.js' */
/** @import * as sdk from '../../types/index.js' */
/** @import * as testing from '../../types/testing.js' */

import * as check from '../check.js';
import { ApiError } from '../errors.js';
import { during } from '../host/native.js';
import { fleet as fleetOf } from '../host/wire.js';
import { TestRequest } from '../message.js';
import { said, thrown } from '../outcome.js';
import { TestCluster, replied } from './cluster.js';
import { Host } from './host.js';
import { rawAnswer } from './http.js';

export class Fleet {
  #config;
  #now = '';
  #host = new Host();
  /** @type {Map<string, TestCluster>} */
  #clusters = new Map();
  /** @type {testing.Serve | undefined} */
  #serve;
  /** @type {testing.Line[]} */
  lines = [];

  /** @param {{ config?: unknown, now?: string | Date }} [options] */
  constructor(options) {
    const { config = {}, now = '2026-01-31T09:30:00.000Z' } = check.bag('options', options, ['config', 'now']);
    this.#config = JSON.stringify(config);
    this.now(/** @type {string | Date} */ (now));
  }

  /** @param {string | Date} time */
  now(time) {
    this.#now = new Date(time).toISOString();
  }

  /**
   * @param {string} name
   * @param {{ labels?: Record<string, string>, properties?: Record<string, string> }} [options]
   */
  cluster(name, options) {
    const { labels, properties } = check.bag('options', options, ['labels', 'properties']);
    this.#host.test({ Cluster: { name: check.text('name', name), labels, properties } });
    const there = this.#clusters.get(name) ?? new TestCluster(this, this.#host, name);
    this.#clusters.set(name, there);
    return there;
  }

  /**
   * Takes a cluster out of what guests may open.
   *
   * @param {string} name
   */
  forget(name) {
    this.#clusters.delete(name);
  }

  /**
   * @param {sdk.Kind} kind
   * @param {{ namespaced?: boolean }} [options]
   */
  define(kind, options) {
    const { namespaced = true } = check.bag('options', options, ['namespaced']);
    this.#host.test({ Define: { kind: check.gvk('kind', kind), namespaced: check.flag('namespaced', namespaced) } });
  }

  /** @param {testing.Serve} answer */
  serve(answer) {
    if (typeof answer !== 'function') throw new TypeError('answer: expected a function');
    this.#serve = answer;
  }

  /** @param {contract.RawReconciler} reconciler */
  describe(reconciler) {
    return this.run(() => said(() => reconciler.describe()));
  }

  /**
   * Runs something that calls the host.
   *
   * @template T
   * @param {() => T} call
   */
  run(call) {
    try {
      return during(this.#functions(), call);
    } finally {
      this.#host.end();
    }
  }

  /**
   * @param {string} name
   * @returns {TestCluster}
   */
  #named(name) {
    const there = this.#clusters.get(name);
    if (there) return there;
    throw thrown(
      new ApiError({ code: 'denied', message: `this fleet has no cluster ${JSON.stringify(name)}: the test names it with fleet.cluster` }),
    );
  }

  /** @returns {contract.Host} */
  #functions() {
    return {
      config: () => this.#config,
      now: () => this.#now,
      log: (level, message, fields) => {
        this.lines.push({ level, message, fields: Object.fromEntries(fields) });
      },
      fleet: {
        clusters: (selector) => this.#infos(selector),
        open: (name) => this.#named(name).handle(),
        batch: (operations) => operations.map(([name, operation]) => replied(() => this.#named(name).handle(), operation)),
      },
      http: { send: (request) => this.#answered(request) },
    };
  }

  /** @param {contract.RawHttpRequest} request */
  #answered(request) {
    if (this.#serve) return rawAnswer('the answer', this.#serve(new TestRequest(request)));
    const message = 'this fleet has no answers for calls of servers: the test gives them with fleet.serve';
    throw thrown(new ApiError({ code: 'denied', message }));
  }

  /** @param {string | undefined} selector */
  #infos(selector) {
    const [any] = this.#clusters.keys();
    if (any === undefined) return [];
    this.#host.handle(any); // a run goes on now
    return fleetOf((called) => this.#host.call(called)).clusters(selector);
  }
}
