/** Cases about other clusters. Entry points: a function for each. */

import { log, operation } from 'windlass-sdk';
import * as fleet from 'windlass-sdk/fleet';
import { ConfigMap, type Scene, configMap, named, refuse, shown } from './scene';
import { answered } from './writing';

/** All granted clusters, some by label, and an invalid selector. */
export function clusters(): void {
  const pairs = (of: Record<string, string>) => Object.entries(of).map((pair) => pair.join(':')).join(','); // prettier-ignore
  for (const { name, labels, properties, ready } of fleet.clusters()) {
    log.info('cluster', { name, labels: pairs(labels), properties: pairs(properties), ready });
  }
  log.info('by label', { names: named(fleet.clusters({ labelSelector: 'tier=second' })) });
  refuse('no selector', () => fleet.clusters({ labelSelector: 'tier in (' }));
}

/** Reads and writes in a granted cluster; clusters that are not granted or not there. */
export function open({ cluster, at }: Scene): void {
  const beta = fleet.open('beta');
  log.info('opened', { name: beta.name, color: shown(beta.get(ConfigMap, at('apple'))?.data?.color) });
  log.info('sent', { from: shown(beta.create(configMap(at('sent'), { from: cluster.name })).data?.from) });
  for (const name of ['gamma', 'bye']) refuse('not opened', () => fleet.open(name));
  refuse('not opened', () => fleet.local());
}

/** A batch over several clusters. */
export function across({ at }: Scene): void {
  const read = operation.get(ConfigMap, at('apple'));
  const results = fleet.batch([
    ['alpha', read],
    ['beta', read],
    ['gamma', read],
    ['beta', operation.create(configMap(at('pear'), { color: 'green' }))],
    ['bye', operation.delete(ConfigMap, at('apple'))],
  ]);
  results.forEach(answered);
}
