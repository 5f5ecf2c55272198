/** Cases about calls that fail, by the code of their errors. Entry points: a function for each. */

import { kind, log, operation } from 'windlass-sdk';
import { ConfigMap, type Scene, refuse, refused } from './scene';

const ANSWERS = ['400', '401', '403', '409', '410', '418', '429', '500', '503', '504', 'cut', 'endless'];

/** Errors of a server, errors of the host, and answers that cannot be read. */
export function codes({ cluster, at }: Scene): void {
  for (const answer of ANSWERS) refuse(answer, () => cluster.get(ConfigMap, at(`answers-${answer}`), { live: true }));
  for (const none of [kind('v1', 'Pod'), kind('apps/v1', 'Submarine')]) refuse(none.kind, () => cluster.get(none, at('nothing')));
}

/** More operations than a batch may have. */
export function limits({ cluster, at }: Scene): void {
  const results = cluster.batch(Array.from({ length: 21 }, () => operation.get(ConfigMap, at('apple'))));
  log.info('limits', { replies: results.length });
  const [first] = results;
  if (first?.status === 'rejected') refused('too many', first.reason);
}

/** A call that the host ends at its deadline. */
export function cancelled({ cluster, at }: Scene): void {
  refuse('cancelled', () => cluster.get(ConfigMap, at('answers-never'), { live: true }));
}
