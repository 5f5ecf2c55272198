/**
 * Servers that are no API servers, within `spec.http` of the reconciler. A guest that imports this needs a world with `http`.
 *
 * Credentials are the operator's: the host adds headers from Secrets, so that the guest needs none. An answer of any status is an answer. A call without one
 * throws an ApiError: `denied` when no rule allows it, `timeout` and `unavailable` when no answer comes.
 *
 * ```js
 * import * as http from 'windlass-sdk/http';
 *
 * const answer = http.get(`https://dns.example.com/v1/zones/${name}`);
 * if (answer.status === 404) throw new TerminalError(`there is no zone ${name}`);
 * const { id } = answer.success().json();
 * http.post(`https://dns.example.com/v1/zones/${id}/records`, { json: { address }, headers: { 'idempotency-key': uid } }).success();
 * ```
 *
 * @packageDocumentation
 */

/** Headers by their names, of which upper and lower case are the same. Several headers of one name are one, with `, ` between them. */
export interface Headers extends ReadonlyMap<string, string> {}

/** Headers of a call: an object, a Map, or pairs. Not those that belong to the connection, such as `host`. */
export type HeadersInit = Readonly<Record<string, string>> | Iterable<readonly [name: string, value: string]>;

export interface Options {
  headers?: HeadersInit;
  /** Bounds the time for the whole call. Default: 30 s, and 10 s, which is the most, for all but GET and HEAD. */
  timeoutMs?: number;
}

export interface BodyOptions extends Options {
  /** A text is sent as UTF-8. */
  body?: string | Uint8Array;
  /** The body as JSON, in place of `body`. Its `content-type` is set too. */
  json?: unknown;
}

/** A call of any method. */
export interface Request extends BodyOptions {
  method: string;
  /** Absolute. */
  url: string;
}

/** An answer of any status. */
export interface Response {
  /** For example 200. */
  readonly status: number;
  /** Whether the status is 2xx. */
  readonly ok: boolean;
  readonly headers: Headers;
  readonly body: Uint8Array;
  /** The body as text. Bytes that are no UTF-8 are replaced. */
  text(): string;
  /** The body, read as JSON. */
  json<T = any>(): T;
  /** This answer, if its status is 2xx. Throws an {@link HttpStatusError} otherwise. */
  success(): this;
}

/** An answer that says that a call has failed. One that leaves `reconcile` is retried with growing delay. */
export class HttpStatusError extends Error {
  constructor(message: string, status: number, retryAfterMs?: number);
  readonly name: 'HttpStatusError';
  readonly status: number;
  /** When the server wants to be asked again: `throw new NotReady(error.message, error.retryAfterMs ?? 10_000)` waits as long. */
  readonly retryAfterMs?: number;
}

/** Asks for a URL. */
export function get(url: string, options?: Options): Response;

export function post(url: string, options?: BodyOptions): Response;

export function put(url: string, options?: BodyOptions): Response;

export function patch(url: string, options?: BodyOptions): Response;

declare function remove(url: string, options?: BodyOptions): Response;
export { remove as delete };

/** Sends a request of any method, and waits for the answer. */
export function send(request: Request): Response;
