/** Calls of servers that are no API servers. */

import assert, { AssertionError } from 'node:assert/strict';
import test from 'node:test';
import { ApiError, NotReady, defineReconciler, kind } from 'windlass-sdk';
import * as http from 'windlass-sdk/http';
import { Fleet, Script } from 'windlass-sdk/testing';
import { decoded, encoded } from '../src/bytes.js';
import { http as overLines } from '../src/host/wire.js';

/** @import { Serve } from 'windlass-sdk/testing' */

const URL = 'https://dns.example.com/v1';
const key = { namespace: 'default', name: 'a' };

/** @param {() => any} reconcile */
const reconciling = (reconcile) => defineReconciler({ describe: () => ({ title: 'test' }), reconcile });

/**
 * @template T
 * @param {Serve} answer
 * @param {() => T} call
 */
function served(answer, call) {
  const fleet = new Fleet();
  fleet.serve(answer);
  return fleet.run(call);
}

test('a test answers what a guest asks', () => {
  /** @type {Serve} */
  const echo = ({ method, url, headers, timeoutMs }, ...none) => {
    assert.deepEqual(none, []);
    return { status: 201, json: { method, url, headers: [...headers], timeoutMs }, headers: { ETag: '1' } };
  };
  const answer = served(echo, () => http.post(URL, { json: { a: [1, 'ü'] }, headers: { 'Idempotency-Key': 'k' }, timeoutMs: 500 }));
  assert.deepEqual([answer.status, answer.ok, answer.headers.get('ETag'), answer.headers.has('etag')], [201, true, '1', true]);
  const headers = [
    ['idempotency-key', 'k'],
    ['content-type', 'application/json'],
  ];
  assert.deepEqual(answer.success().json(), { method: 'POST', url: URL, headers, timeoutMs: 500 });
});

test('each function sends its method, and what it is given', () => {
  /** @type {[() => http.Response, unknown[]][]} */
  const calls = [
    [() => http.get(URL), ['GET', '', undefined]],
    [() => http.put(URL, { body: 'ü🍐' }), ['PUT', 'ü🍐', undefined]],
    [() => http.patch(URL, { body: new Uint8Array([65, 0]) }), ['PATCH', 'A\0', undefined]],
    [() => http.delete(URL, { json: null }), ['DELETE', 'null', 'application/json']],
    [() => http.send({ method: 'HEAD', url: URL, headers: new Map([['Content-Type', 'x/y']]) }), ['HEAD', '', 'x/y']],
    [() => http.post(URL, { json: 'a', headers: [['Content-Type', 'x/y']] }), ['POST', '"a"', 'x/y']],
  ];
  for (const [call, sent] of calls) {
    const answer = served((asked) => ({ json: [asked.method, asked.text(), asked.headers.get('CONTENT-TYPE')] }), call);
    assert.deepEqual(answer.json(), JSON.parse(JSON.stringify(sent)));
  }
});

test('several headers of one name are one', () => {
  const headers = /** @type {[string, string][]} */ ([
    ['Link', 'a'],
    ['link', 'b'],
  ]);
  const answer = served(
    ({ headers }) => ({ headers }),
    () => http.get(URL, { headers }),
  );
  assert.deepEqual([...answer.headers], [['link', 'a, b']]);
  assert.deepEqual([answer.status, answer.body, answer.text()], [200, new Uint8Array(), '']);
});

test('without answers every call is denied', () => {
  assert.throws(() => new Fleet().run(() => http.get(URL)), { name: 'ApiError', code: 'denied', message: /fleet\.serve/ });
  assert.throws(() => http.get(URL), /a Fleet or a Script of windlass-sdk\/testing/);
});

test('what the test throws is the error of the call', () => {
  const error = new ApiError({ code: 'timeout', message: 'no answer' });
  const fails = () => {
    throw error;
  };
  assert.throws(
    () => served(fails, () => http.get(URL)),
    (thrown) => thrown === error,
  );
});

test('a status becomes an error where the guest wants one', () => {
  const ask = () => http.get(URL).success();
  const limited = () => ({ status: 429, headers: { 'Retry-After': ' 7 ' }, body: ' too many ' });
  assert.throws(() => served(limited, ask), {
    name: 'HttpStatusError',
    message: 'the server answers 429: too many',
    status: 429,
    retryAfterMs: 7000,
  });
  const later = () => ({ status: 503, headers: { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' } });
  assert.throws(() => served(later, ask), { message: 'the server answers 503', retryAfterMs: undefined });
  const long = () => ({ status: 500, body: 'ä'.repeat(1000) });
  assert.throws(() => served(long, ask), { message: `the server answers 500: ${'ä'.repeat(200)}` });
  assert.equal(served(() => ({ status: 204 }), ask).status, 204);
  assert(served(() => ({ status: 404 }), () => http.get(URL)).ok === false); // prettier-ignore
});

test('a status error that leaves a reconcile is retried, and waits as the guest says', () => {
  const script = new Script();
  const request = { cluster: 'alpha', key };
  const limited = { status: 429, headers: { 'retry-after': '7' } };
  script.http.send({ method: 'GET', url: URL }).answers(limited);
  const came = script.reconcile(
    reconciling(() => void http.get(URL).success()),
    request,
  );
  assert.equal(came.outcome, 'retry');
  assert.match(/** @type {any} */ (came).message, /^the server answers 429/);
  script.http.send({ method: 'GET', url: URL }).answers(limited);
  const waiting = reconciling(() => {
    try {
      http.get(URL).success();
    } catch (error) {
      if (!(error instanceof http.HttpStatusError)) throw error;
      throw new NotReady(error.message, error.retryAfterMs ?? 10_000);
    }
  });
  assert.deepEqual(script.reconcile(waiting, request), { outcome: 'requeue', afterMs: 7000 });
});

test('a script has calls of servers in their order', () => {
  const reconciler = reconciling(() => {
    assert.equal(http.post(URL, { json: { a: 1, b: 2 } }).status, 201);
    assert.throws(() => http.get(URL), { code: 'timeout' });
  });
  const script = new Script();
  script.http.send({ method: 'POST', url: URL, json: { b: 2, a: 1 } }).answers({ status: 201 });
  script.http.send({ method: 'GET', url: URL }).fails('timeout');
  assert.deepEqual(script.reconcile(reconciler, { cluster: 'alpha', key }), { outcome: 'done' });
  assert.throws(() => script.reconcile(reconciler, { cluster: 'alpha', key }), {
    name: 'AssertionError',
    message: /does not expect: http\.send\({"method":"POST","url":"https:\/\/dns\.example\.com\/v1",.*"body":{"a":1,"b":2}}\)/,
  });
  script.cluster('alpha').get(kind('v1', 'ConfigMap'), key);
  assert.throws(() => script.reconcile(reconciler, { cluster: 'alpha', key }), AssertionError);
});

test('misuse is refused before anything is sent', () => {
  const cases = [
    [() => http.get(/** @type {any} */ (1)), /url: expected a string/],
    [() => http.get(URL, /** @type {any} */ ({ json: 1 })), /there is no json; known are headers, timeoutMs/],
    [() => http.post(URL, { json: 1, body: '1' }), /json: there is a body too/],
    [() => http.post(URL, { body: /** @type {any} */ ({}) }), /what becomes JSON is json/],
    [() => http.post(URL, { json: NaN }), /json: expected a finite number/],
    [() => http.post(URL, { json: () => 1 }), /json: expected a value that JSON has/],
    [() => http.get(URL, { headers: /** @type {any} */ ({ a: 1 }) }), /headers\.a: expected a string/],
    [() => http.get(URL, { headers: /** @type {any} */ ([['a']]) }), /headers\[0\]\[1\]: expected a string/],
    [() => http.get(URL, { timeoutMs: 1.5 }), /timeoutMs: expected a whole number/],
  ];
  const never = () => assert.fail('it is sent');
  for (const [call, message] of /** @type {[() => any, RegExp][]} */ (cases)) assert.throws(() => served(never, call), message);
  for (const answer of [undefined, { stauts: 200 }, Promise.resolve({}), { status: '200' }, 200]) {
    assert.throws(() => served(/** @type {any} */ (() => answer), () => http.get(URL)), TypeError); // prettier-ignore
  }
  assert.throws(() => new Fleet().serve(/** @type {any} */ ({ status: 200 })), TypeError);
});

test('a process sends the bytes of a body as numbers', () => {
  const { send } = overLines((called) => {
    const request = { method: 'PUT', url: URL, headers: [['a', 'b']], body: [0, 255], timeout_ms: 5, options: [] };
    assert.deepEqual(called, { Http: { request } });
    return { Ok: { status: 200, headers: [], body: [1, 254] } };
  });
  const answer = send({ method: 'PUT', url: URL, headers: [['a', 'b']], body: new Uint8Array([0, 255]), timeoutMs: 5, options: [] });
  assert.deepEqual(answer, { status: 200, headers: [], body: new Uint8Array([1, 254]) });
  const error = { code: 'LimitExceeded', http_status: 0, reason: 'x', message: 'too long' };
  const { send: failing } = overLines(() => ({ Err: error }));
  const request = { method: 'GET', url: URL, headers: [], body: new Uint8Array(), options: [] };
  assert.throws(() => failing(/** @type {any} */ (request)), /too long/);
});

/** What an engine with Base64 of bytes adds. */
const BASE64 = {
  fromBase64: (/** @type {string} */ text) => new Uint8Array(Buffer.from(text, 'base64')),
  /** @this {Uint8Array} */
  toBase64() {
    return Buffer.from(this).toString('base64');
  },
};

test('texts are UTF-8 as the encoding standard has it, with functions of newer engines and without', () => {
  const engine = /** @type {any} */ (Uint8Array);
  const { fromBase64 } = engine;
  const { toBase64 } = engine.prototype;
  const set = (/** @type {any} */ from, /** @type {any} */ to) => {
    engine.fromBase64 = from;
    engine.prototype.toBase64 = to;
  };
  try {
    for (const added of /** @type {any[]} */ ([{}, BASE64])) {
      set(added.fromBase64, added.toBase64);
      texts();
    }
  } finally {
    set(fromBase64, toBase64);
  }
});

function texts() {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const same = (/** @type {Uint8Array} */ bytes) => assert.equal(decoded(bytes), decoder.decode(bytes));
  // Bytes at the ends of every range.
  const bytes = [
    0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff,
  ];
  for (const a of bytes) for (const b of bytes) for (const c of bytes) for (const d of bytes) same(Uint8Array.of(a, b, c, d, 0x41));
  for (const text of [
    '',
    'a',
    '\0\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff🍐\u{10ffff}',
    '\ud800',
    'a\udc00b',
    '🍐'.repeat(5000),
    'x'.repeat(20_000),
  ]) {
    assert.deepEqual(encoded(text), new TextEncoder().encode(text));
    same(encoded(text));
  }
}
