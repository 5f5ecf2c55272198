/**
 * Requests and answers of HTTP: their headers and bodies. Entry points: `Response`, `TestRequest`, and `contents`, which makes headers and a body of
 * what a guest or a test gives.
 *
 * @module
 */

/** @import { RawHttpRequest, RawHttpResponse } from '../types/contract.js' */

import { decoded, encoded } from './bytes.js';
import * as check from './check.js';
import { HttpStatusError } from './errors.js';

/** Most characters of a body that an error shows. */
const SHOWN = 200;
/** Most bytes of a character. */
const WIDEST = 4;

const TYPE = 'content-type';

/** The fields of {@link contents}. */
export const CONTENTS = ['headers', 'body', 'json'];

/**
 * Headers by their names in lower case. Several of one name are one, as `fetch` has them.
 *
 * @extends {Map<string, string>}
 */
class Headers extends Map {
  /** @param {readonly (readonly [string, string])[]} pairs */
  constructor(pairs) {
    super();
    for (const [name, value] of pairs) {
      const before = this.get(name);
      this.set(name.toLowerCase(), before === undefined ? value : `${before}, ${value}`);
    }
  }

  /** @param {string} name */
  get(name) {
    return super.get(name.toLowerCase());
  }

  /** @param {string} name */
  has(name) {
    return super.has(name.toLowerCase());
  }
}

class Message {
  /** @param {{ headers: readonly (readonly [string, string])[], body: Uint8Array }} raw */
  constructor({ headers, body }) {
    this.headers = new Headers(headers);
    this.body = body;
  }

  text() {
    return decoded(this.body);
  }

  json() {
    return JSON.parse(this.text());
  }
}

export class Response extends Message {
  /** @param {RawHttpResponse} raw */
  constructor(raw) {
    super(raw);
    this.status = raw.status;
  }

  get ok() {
    return this.status >= 200 && this.status < 300;
  }

  success() {
    if (this.ok) return this;
    const shown = decoded(this.body.subarray(0, SHOWN * WIDEST))
      .slice(0, SHOWN)
      .trim();
    const message = `the server answers ${this.status}${shown && ': '}${shown}`;
    throw new HttpStatusError(message, this.status, patience(this.headers.get('retry-after')));
  }
}

/** What a test gets of a guest. */
export class TestRequest extends Message {
  /** @param {RawHttpRequest} raw */
  constructor(raw) {
    super(raw);
    this.method = raw.method;
    this.url = raw.url;
    this.timeoutMs = raw.timeoutMs;
  }
}

/**
 * Milliseconds of a header that has seconds.
 *
 * @param {string | undefined} header
 */
const patience = (header) => (header !== undefined && /^\s*\d+\s*$/.test(header) ? Number(header) * 1000 : undefined);

/**
 * Headers and body in the contract's form.
 *
 * @param {Record<string, unknown>} given
 * @returns {{ headers: [string, string][], body: Uint8Array }}
 */
export function contents({ headers, body, json }) {
  const pairs = given(headers);
  if (json === undefined) return { headers: pairs, body: bytes(body) };
  if (body != null) throw new TypeError('json: there is a body too');
  const isTyped = pairs.some(([name]) => name.toLowerCase() === TYPE);
  return { headers: isTyped ? pairs : [...pairs, [TYPE, 'application/json']], body: encoded(check.anyJson('json', json)) };
}

/**
 * @param {unknown} headers an object, a Map, or pairs
 * @returns {[string, string][]}
 */
function given(headers) {
  if (headers == null) return [];
  const isIterable = typeof headers === 'object' && Symbol.iterator in headers;
  if (!isIterable) return check.pairs('headers', headers);
  return Array.from(/** @type {Iterable<unknown>} */ (headers), (each, at) => {
    const [name, value] = check.array(`headers[${at}]`, each);
    return [check.text(`headers[${at}][0]`, name), check.text(`headers[${at}][1]`, value)];
  });
}

/** @param {unknown} body */
function bytes(body) {
  if (body == null) return new Uint8Array();
  if (body instanceof Uint8Array) return body;
  if (typeof body !== 'string') throw new TypeError('body: expected a string or a Uint8Array; what becomes JSON is json');
  return encoded(body);
}
