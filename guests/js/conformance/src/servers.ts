/** The case about servers that are no API servers. Entry point: `http`. */

import { log } from 'windlass-sdk';
import * as servers from 'windlass-sdk/http';
import { type Scene, refuse, shown } from './scene';

/** Calls that a rule allows, one without an answer, and calls that no rule allows. */
export function http({ primary }: Scene): void {
  const server = primary.data?.server ?? '';
  const answer = servers.get(`${server}/status/429`, { headers: { 'x-key': 'k' } });
  log.info('answered', { status: answer.status, wait: shown(answer.headers.get('retry-after')), body: answer.text() });
  try {
    answer.success();
  } catch (error) {
    if (!(error instanceof servers.HttpStatusError)) throw error;
    log.info('failed', { status: error.status, message: error.message, wait: shown(error.retryAfterMs) });
  }
  const headers = { 'x-key': 'k', authorization: 'own' };
  const posted = servers.post(`${server}/body`, { headers, json: { count: 3, text: 'żółty' } }).success();
  const { count, text } = posted.json<{ count: number; text: string }>();
  log.info('posted', { status: posted.status, type: shown(posted.headers.get('content-type')), count, text });
  refuse('late', () => servers.get(`${server}/never`, { timeoutMs: 100 }));
  refuse('method', () => servers.delete(`${server}/body`));
  refuse('host', () => servers.get('https://api.example.com/v1'));
}
