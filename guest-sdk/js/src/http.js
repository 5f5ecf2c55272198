/**
 * Servers that are no API servers. Entry points: `get`, `post`, `put`, `patch`, `delete` and `send`; documented in `types/http.d.ts`.
 *
 * @module
 */

/** @import { RawHttpRequest } from '../types/contract.js' */
/** @import * as sdk from '../types/http.js' */

import * as host from '#host/http';
import * as check from './check.js';
import { calling } from './errors.js';
import { CONTENTS, Response, contents } from './message.js';

export { HttpStatusError } from './errors.js';

/** The options of a request, by whether it has a body. */
const WITHOUT_BODY = ['headers', 'timeoutMs'];
const WITH_BODY = [...CONTENTS, 'timeoutMs'];

/** @param {sdk.Request} request */
export function send(request) {
  return /** @type {sdk.Response} */ (new Response(calling(() => host.send(rawRequest(request)))));
}

/**
 * A request in the contract's form.
 *
 * @param {unknown} request
 * @returns {RawHttpRequest}
 */
export function rawRequest(request) {
  const { method, url, timeoutMs, ...given } = check.bag('request', request, ['method', 'url', ...WITH_BODY]);
  return {
    method: check.text('method', method),
    url: check.text('url', url),
    ...contents(given),
    timeoutMs: timeoutMs == null ? undefined : check.whole('timeoutMs', timeoutMs),
    options: [],
  };
}

/**
 * @param {string} url
 * @param {sdk.Options} [options]
 */
export const get = (url, options) => send({ ...check.bag('options', options, WITHOUT_BODY), method: 'GET', url });

/** @param {string} method */
const sender =
  (method) =>
  /**
   * @param {string} url
   * @param {sdk.BodyOptions} [options]
   */
  (url, options) =>
    send({ ...check.bag('options', options, WITH_BODY), method, url });

export const post = sender('POST');
export const put = sender('PUT');
export const patch = sender('PATCH');

const remove = sender('DELETE');
export { remove as delete };
