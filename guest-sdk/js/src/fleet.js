/**
 * The other clusters. Entry points: `clusters`, `open` and `batch`; documented in `types/fleet.d.ts`.
 *
 * @module
 */

/** @import { RawOperation } from '../types/contract.js' */

import * as host from '#host/fleet';
import * as check from './check.js';
import { Cluster } from './cluster.js';
import { calling } from './errors.js';
import { madeHere, settle } from './operation.js';

/** @param {{ labelSelector?: string }} [options] */
export function clusters(options) {
  const { labelSelector } = check.bag('options', options, ['labelSelector']);
  const selector = check.optionalText('labelSelector', labelSelector);
  return calling(() => host.clusters(selector)).map(({ name, labels, properties, ready }) => ({
    name,
    labels: Object.fromEntries(labels),
    properties: Object.fromEntries(properties),
    ready,
  }));
}

/** @param {string} name */
export function open(name) {
  check.text('name', name);
  return new Cluster(calling(() => host.open(name)));
}

export const local = () => open('');

/** @param {readonly (readonly [string, any])[]} operations */
export function batch(operations) {
  const sent = check.array('operations', operations).map((each, at) => {
    const [cluster, operation] = check.array(`operations[${at}]`, each);
    return /** @type {[string, RawOperation]} */ ([
      check.text(`operations[${at}][0]`, cluster),
      madeHere(`operations[${at}][1]`, operation),
    ]);
  });
  return settle(host.batch(sent));
}
