/** The calls that a cluster's methods make to the host, and how they convert its answers. */

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  ApiError,
  TerminalError,
  controllerOf,
  controllerReference,
  defineReconciler,
  keyOf,
  kind,
  log,
  operation,
  setController,
  values,
} from 'windlass-sdk';
import * as fleet from 'windlass-sdk/fleet';
import { Script } from 'windlass-sdk/testing';

/** @import { Cluster } from 'windlass-sdk' */

const ConfigMap = kind('v1', 'ConfigMap');
const a = { namespace: 'default', name: 'a' };
const object = { ...ConfigMap, metadata: { ...a, uid: '1' }, data: { color: 'blue' } };

/**
 * Runs `call` in a reconcile of the script, and returns its result or throws its error.
 *
 * @template T
 * @param {Script} script
 * @param {(cluster: Cluster) => T} call
 * @returns {T}
 */
function within(script, call) {
  /** @type {({ value: T } | { error: unknown })[]} */
  const runs = [];
  const reconciler = defineReconciler({
    describe: () => ({ title: 'test' }),
    reconcile(_, cluster) {
      try {
        runs.push({ value: call(cluster) });
      } catch (error) {
        runs.push({ error });
      }
    },
  });
  script.reconcile(reconciler, { cluster: 'alpha', key: a });
  const [came] = runs;
  if ('error' in came) throw came.error;
  return came.value;
}

test('an absent object is undefined, another one plain', () => {
  const script = new Script();
  const alpha = script.cluster('alpha');
  alpha.get(ConfigMap, a);
  alpha.get(ConfigMap, { name: 'b' }, { live: true, metadataOnly: true, subresource: 'status' }).answers(object);
  assert.deepEqual(
    within(script, (cluster) => [
      cluster.get(ConfigMap, a),
      cluster.get({ apiVersion: 'v1', kind: 'ConfigMap' }, { name: 'b' }, { live: true, metadataOnly: true, subresource: 'status' }),
    ]),
    [undefined, object],
  );
});

test('writes take their kind from the object and return what is stored', () => {
  const script = new Script();
  const alpha = script.cluster('alpha');
  const stored = { ...object, metadata: { ...object.metadata, resourceVersion: '7' } };
  alpha.create(object).answers(stored);
  alpha.update(object, { dryRun: true });
  alpha.updateStatus(object);
  alpha.apply(object, { force: true, subresource: 'scale' });
  alpha.patch(ConfigMap, a, { data: null }).answers(stored);
  alpha.patch(ConfigMap, a, [{ op: 'remove', path: '/data' }], { type: 'json-patch' }).answers(stored);
  const answers = within(script, (cluster) => [
    cluster.create(object),
    cluster.update(object, { dryRun: true }),
    cluster.update(object, { subresource: 'status' }),
    cluster.apply(object, { force: true, subresource: 'scale' }),
    cluster.patch(ConfigMap, object, { data: null }, { type: 'merge' }),
    cluster.patch(ConfigMap, a, [{ op: 'remove', path: '/data' }]),
  ]);
  assert.deepEqual(answers, [stored, object, object, object, stored, stored]);
});

test('a delete reports whether there was one', () => {
  const script = new Script();
  const alpha = script.cluster('alpha');
  alpha.delete(ConfigMap, a);
  alpha.delete(ConfigMap, a, { uid: '1', propagation: 'foreground', gracePeriodSeconds: 5 }).answers(false);
  alpha.delete(ConfigMap, a).fails('conflict', { status: 409 });
  alpha.deleteCollection(ConfigMap, { namespace: 'default' }, { dryRun: true });
  within(script, (cluster) => {
    assert.equal(cluster.delete(ConfigMap, a), true);
    assert.equal(cluster.delete(ConfigMap, object, { uid: '1', propagation: 'foreground', gracePeriodSeconds: 5 }), false);
    assert.throws(() => cluster.delete(ConfigMap, a), { name: 'ApiError', code: 'conflict', status: 409 });
    cluster.deleteCollection(ConfigMap, { namespace: 'default' }, { dryRun: true });
  });
});

test('listAll asks for a page when the one before is used up', () => {
  const script = new Script();
  const alpha = script.cluster('alpha');
  const named = (/** @type {string} */ name) => ({ ...ConfigMap, metadata: { name } });
  const options = { namespace: 'default', labelSelector: 'app=x', index: /** @type {[string, string]} */ (['by-color', 'blue']), limit: 2 };
  alpha.list(ConfigMap, options).answers({ items: [named('a'), named('b')], continueToken: 'more' });
  alpha.list(ConfigMap, { ...options, continueToken: 'more' }).answers([named('c')]);
  alpha.list(ConfigMap).answers({ items: [named('d'), named('e')], continueToken: 'never used' });
  within(script, (cluster) => {
    assert.deepEqual(
      Array.from(cluster.listAll(ConfigMap, options), ({ metadata }) => metadata.name),
      ['a', 'b', 'c'],
    );
    for (const { metadata } of cluster.listAll(ConfigMap)) if (metadata.name === 'd') break;
  });
});

test('a batch answers as the methods would', () => {
  const script = new Script();
  const operations = /** @type {const} */ ([
    operation.get(ConfigMap, a),
    operation.get(ConfigMap, object),
    operation.delete(ConfigMap, a),
    operation.delete(ConfigMap, a),
    operation.list(ConfigMap, { limit: 1 }),
    operation.create(object),
    operation.apply(object),
  ]);
  const gone = new ApiError({ code: 'not-found', message: 'there is none', status: 404 });
  const taken = new ApiError({ code: 'already-exists', message: 'there is one', status: 409 });
  script
    .cluster('alpha')
    .batch(operations)
    .answers([undefined, object, undefined, gone, { items: [object], continueToken: 'x' }, taken, object]);
  const results = within(script, (cluster) => cluster.batch(operations));
  const [none, found, deleted, absent, page, created] = results;
  assert.deepEqual(
    [none, found],
    [
      { status: 'fulfilled', value: undefined },
      { status: 'fulfilled', value: object },
    ],
  );
  assert.deepEqual(
    [deleted, absent],
    [
      { status: 'fulfilled', value: undefined },
      { status: 'rejected', reason: gone },
    ],
  );
  assert.deepEqual(page.status === 'fulfilled' && page.value, { items: [object], continueToken: 'x', resourceVersion: '1' });
  assert.equal(created.status === 'rejected' && created.reason.code, 'already-exists');
  assert.deepEqual(values([none, found]), [undefined, object]);
  assert.throws(() => values(results), { name: 'ApiError', code: 'not-found' });
});

test('the fleet names, opens and batches clusters', () => {
  const script = new Script();
  const west = { name: 'west', labels: { region: 'eu' }, properties: {}, ready: true };
  script.cluster('west').get(ConfigMap, a).answers(object);
  script.fleet.clusters({ labelSelector: 'region=eu' }).answers([west]);
  script.fleet.open('nowhere').fails('cluster-gone');
  script.fleet.batch([['west', operation.get(ConfigMap, a)]]).answers([object]);
  within(script, () => {
    const opened = fleet.open('west');
    assert.deepEqual([opened.name, opened.get(ConfigMap, a)], ['west', object]);
    assert.deepEqual(fleet.clusters({ labelSelector: 'region=eu' }), [west]);
    assert.throws(() => fleet.open('nowhere'), { code: 'cluster-gone' });
    assert.deepEqual(values(fleet.batch([['west', operation.get(ConfigMap, a)]])), [object]);
  });
});

test('an api-error has everything that the server said', () => {
  const script = new Script();
  script
    .cluster('alpha')
    .create(object)
    .fails('throttled', { status: 429, reason: 'TooManyRequests', message: 'slow down', details: { retry: 1 }, retryAfter: 1500 });
  const error = (() => {
    try {
      return within(script, (cluster) => cluster.create(object));
    } catch (error) {
      return error;
    }
  })();
  assert(error instanceof ApiError);
  const { name, message, code, status, reason, details, retryAfter } = error;
  assert.deepEqual(
    { name, message, code, status, reason, details, retryAfter },
    {
      name: 'ApiError',
      message: 'slow down',
      code: 'throttled',
      status: 429,
      reason: 'TooManyRequests',
      details: { retry: 1 },
      retryAfter: 1500,
    },
  );
});

test('what the contract cannot carry is refused before the host sees it', () => {
  /** @type {[(cluster: any) => unknown, string, RegExp][]} */
  const wrong = [
    [
      (cluster) => cluster.list(ConfigMap, { limit: 5_000_000_000 }),
      'RangeError',
      /^limit: expected a whole number from 0 to 4294967295, got 5000000000$/,
    ],
    [(cluster) => cluster.list(ConfigMap, { limit: -1.5 }), 'RangeError', /^limit: .* got -1.5$/],
    [(cluster) => cluster.list(ConfigMap, { limit: '7' }), 'TypeError', /^limit: expected a number, got "7"$/],
    [
      (cluster) => cluster.list(ConfigMap, { labelselector: 'a' }),
      'TypeError',
      /^options: there is no labelselector; known are namespace, labelSelector/,
    ],
    [(cluster) => cluster.list(ConfigMap, { index: ['a'] }), 'TypeError', /^index\[1\]: expected a string, got undefined$/],
    [(cluster) => cluster.get('ConfigMap', a), 'TypeError', /^kind: expected an object, got "ConfigMap"$/],
    [
      (cluster) => cluster.get({ apiVersion: 'a/b/c', kind: 'X' }, a),
      'TypeError',
      /^kind.apiVersion: expected "v1" or "group\/version", got "a\/b\/c"$/,
    ],
    [(cluster) => cluster.get(ConfigMap, 'a'), 'TypeError', /^key: expected an object, got "a"$/],
    [(cluster) => cluster.get(ConfigMap, {}), 'TypeError', /^key.name: expected a string, got undefined$/],
    [(cluster) => cluster.get(ConfigMap, a, { live: 'yes' }), 'TypeError', /^live: expected true or false, got "yes"$/],
    [(cluster) => cluster.create({ metadata: a }), 'TypeError', /^object.apiVersion: expected a string, got undefined$/],
    [(cluster) => cluster.create(undefined), 'TypeError', /^object: expected an object, got undefined$/],
    [(cluster) => cluster.patch(ConfigMap, a, 'x'), 'TypeError', /^patch: expected an object, got "x"$/],
    [
      (cluster) => cluster.patch(ConfigMap, a, {}, { type: 'json' }),
      'TypeError',
      /^type: expected one of json-patch, merge, strategic-merge, got "json"$/,
    ],
    [(cluster) => cluster.delete(ConfigMap, a, { propagation: 'Background' }), 'TypeError', /^propagation: expected one of background/],
    [(cluster) => cluster.batch([{ tag: 'get', val: [] }]), 'TypeError', /^operations\[0\]: expected a call made by operation.get/],
    [(cluster) => cluster.event(object, 'Reason', 7), 'TypeError', /^note: expected a string, got number$/],
    [
      (cluster) => cluster.patch(ConfigMap, a, { spec: { replicas: NaN } }),
      'RangeError',
      /^patch.spec.replicas: expected a finite number, got NaN$/,
    ],
    [(cluster) => cluster.update({ ...object, list: [1, { x: -Infinity }] }), 'RangeError', /^object.list\[1\].x: .* got -Infinity$/],
    [
      (cluster) => cluster.update({ ...object, ...JSON.parse('{"data":{"big":9007199254740993}}') }),
      'RangeError',
      /^object.data.big: 9007199254740992 is beyond 2⁵³, where numbers are not exact: /,
    ],
    [() => controllerReference({ ...ConfigMap, metadata: a }), 'TypeError', /^ConfigMap a has no uid/],
  ];
  for (const [call, name, message] of wrong) assert.throws(() => within(new Script(), call), { name, message });
});

test('numbers that are exact are written as they are', () => {
  const script = new Script();
  const data = { max: Number.MAX_SAFE_INTEGER, min: Number.MIN_SAFE_INTEGER, part: 0.1, small: 5e-324, none: null };
  script.cluster('alpha').create({ ...object, data });
  assert.deepEqual(
    within(script, (cluster) => cluster.create({ ...object, data })),
    { ...object, data },
  );
});

test('half a surrogate pair becomes U+FFFD, wherever it stands', () => {
  const script = new Script();
  script.cluster('alpha').apply({ ...object, data: { 'a\ufffd': 'b\ufffd', path: '\\ud800', pear: '🍐' } });
  script.cluster('alpha').get(ConfigMap, { name: 'a\ufffd' });
  within(script, (cluster) => {
    cluster.apply({ ...object, data: { 'a\ud800': 'b\udc00', path: '\\ud800', pear: '🍐' } });
    cluster.get(ConfigMap, { name: 'a\ud83c' });
    cluster.event(object, 'Odd', 'note \ud800');
    log.info('line \ud800', { field: '\ud800' });
  });
  assert.equal(script.events[0].note, 'note \ufffd');
  assert.deepEqual([script.lines[0].message, script.lines[0].fields], ['line \ufffd', { field: '\ufffd' }]);
  const failing = defineReconciler({
    describe: () => ({ title: 'test' }),
    reconcile() {
      throw new TerminalError('for \ud800');
    },
  });
  assert.deepEqual(script.reconcile(failing, { cluster: 'alpha', key: a }), { outcome: 'terminal', message: 'for \ufffd' });
});

test('a controller is set beside other owners, replaces itself, and refuses another one', () => {
  const other = { ...controllerReference(object), uid: '2', controller: false };
  const owned = { ...ConfigMap, metadata: { namespace: 'default', name: 'b', ownerReferences: [other] } };
  setController(owned, object);
  setController(owned, object);
  assert.deepEqual(owned.metadata.ownerReferences, [other, controllerReference(object)]);
  assert.throws(() => setController(owned, { ...object, metadata: { ...a, name: 'c', uid: '3' } }), {
    name: 'ApiError',
    code: 'conflict',
    message: 'ConfigMap default/b has a controller already: ConfigMap a',
  });
  const bare = { ...ConfigMap, metadata: { namespace: 'default', name: 'b' } };
  setController(bare, object);
  assert.deepEqual(controllerOf(bare), controllerReference(object));
});

test('owners and keys are read from objects', () => {
  const reference = controllerReference(object);
  const owned = { metadata: { name: 'b', ownerReferences: [{ ...reference, controller: false }, reference] } };
  assert.deepEqual(reference, { ...ConfigMap, name: 'a', uid: '1', controller: true, blockOwnerDeletion: true });
  assert.equal(controllerOf(owned), reference);
  assert.deepEqual([keyOf(object), keyOf(owned)], [a, { name: 'b' }]);
});
