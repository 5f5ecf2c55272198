/**
 * A fleet in memory, for tests of a guest without WebAssembly. Entry point: `Fleet`; documented in `types/testing.d.ts`.
 *
 * @module
 */

/** @import { Host, RawReconciler } from '../types/contract.js' */
/** @import * as testing from '../types/testing.js' */

import * as check from './check.js';
import { ApiError } from './errors.js';
import { during } from './host/native.js';
import { TestCluster, replied, thrown } from './memory-cluster.js';
import { said } from './outcome.js';
import { labelSelector } from './selector.js';

export class Fleet {
  #config;
  #now = '';
  /** @type {Map<string, TestCluster>} */
  #clusters = new Map();
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
    const there = this.#clusters.get(check.text('name', name)) ?? new TestCluster(this, name);
    this.#clusters.set(name, there);
    Object.assign(there.labels, labels);
    Object.assign(there.properties, properties);
    return there;
  }

  /** @param {RawReconciler} reconciler */
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
    return during(this.#host(), call);
  }

  /**
   * @param {string} name
   * @returns {TestCluster}
   */
  #named(name) {
    const there = this.#clusters.get(name);
    if (there) return there;
    throw thrown(new ApiError({ code: 'denied', message: `this fleet has no cluster ${JSON.stringify(name)}: the test names it with fleet.cluster` }));
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
        clusters: (selector) => {
          const matches = labelSelector(selector);
          const all = [...this.#clusters.values()].filter(({ labels }) => matches(labels));
          const infos = all.map(({ name, labels, properties }) => ({
            name,
            labels: Object.entries(labels),
            properties: Object.entries(properties),
            ready: true,
          }));
          return infos.sort((a, b) => (a.name < b.name ? -1 : 1));
        },
        open: (name) => this.#named(name).handle(),
        batch: (operations) => operations.map(([name, operation]) => replied(() => this.#named(name).handle(), operation)),
      },
    };
  }
}
