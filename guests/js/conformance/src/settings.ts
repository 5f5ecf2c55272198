/** Cases about events, the log, the configuration and the time. Entry points: a function for each. */

import { config, log, now } from 'windlass-sdk';
import { type Scene, configMap } from './scene';

/** One event of each type. */
export function events({ cluster, primary, at }: Scene): void {
  cluster.event(primary, 'Checked', 'all is well');
  cluster.event(configMap(at('apple')), 'Odd', 'the apple is odd: "żółty"', { type: 'warning' });
  log.info('told');
}

/** Text whose last character is cut. */
export const cut = `half ${'🍐'.charAt(0)}`;

/** Each level; values that have to be quoted, are empty or have control characters; no values. */
export function lines(): void {
  log.debug('looked', { at: 'apple' });
  log.info('did', { what: 'two words', count: 2 });
  log.warn('odd', { text: 'żółty = "yellow"', empty: '' });
  log.error('broken', { line: 'one\ntwo' });
  log.info('no values');
  log.info('cut', { text: cut });
}

/** Values of every type. */
export function configuration(): void {
  const { greeting, count, list, nested } = config<{ greeting: string; count: number; list: string[]; nested: { deep: boolean } }>();
  log.info('config', { greeting, count, list: list.join(','), deep: nested.deep });
}

/** The format of the time, and that it goes forward. */
export function clock(): void {
  const [first, second] = [now().toISOString(), now().toISOString()];
  log.info('clock', { length: first.length, zone: first.at(-1), forward: second >= first });
}

/** Two random numbers. */
export function random(): void {
  log.info('random', { first: Math.random(), second: Math.random() });
}
