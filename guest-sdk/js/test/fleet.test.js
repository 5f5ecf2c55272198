/** A fleet of the program, and a guest on it. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { ApiError, defineMapper, defineReconciler, dependents, kind, log, now, operation, values } from 'windlass-sdk';
import * as fleets from 'windlass-sdk/fleet';
import { Fleet } from 'windlass-sdk/testing';

const ConfigMap = kind('v1', 'ConfigMap');
const Secret = kind('v1', 'Secret');
const Deployment = kind('apps/v1', 'Deployment');
const Recipe = kind('kitchen.example/v1', 'Recipe');
const key = { namespace: 'default', name: 'a' };

const parts = dependents({ kinds: [Secret] });
const reconciler = defineReconciler({
  describe: () => ({ title: 'copies', watches: [{ kind: Recipe }] }),
  reconcile({ key }, cluster) {
    const recipe = cluster.get(Recipe, key);
    if (!recipe) return;
    const { data } = recipe.spec;
    for (const { name } of fleets.clusters({ labelSelector: 'tier=prod' })) fleets.open(name).ensure({ ...ConfigMap, metadata: key, data });
    cluster.event(recipe, 'Copied', 'it is copied');
    log.info('copied', { from: key.name });
    return parts.reconcile(cluster, recipe, [{ ...Secret, metadata: key, data }]);
  },
});

test('a guest keeps its objects, and has nothing to do the second time', () => {
  const fleet = new Fleet({ now: '2026-02-01T00:00:00Z' });
  const alpha = fleet.cluster('alpha');
  const beta = fleet.cluster('beta', { labels: { tier: 'prod' } });
  alpha.put({ ...Recipe, metadata: { ...key }, spec: { data: { x: 'MQ==' } } });
  assert.deepEqual(alpha.reconcile(reconciler, key), { outcome: 'done' });
  assert.deepEqual(alpha.get(Secret, key)?.data, { x: 'MQ==' });
  assert.deepEqual(beta.get(ConfigMap, key)?.data, { x: 'MQ==' });
  const { conditions } = /** @type {any} */ (alpha.get(Recipe, key)?.status);
  assert.equal(conditions[0].lastTransitionTime, '2026-02-01T00:00:00Z');
  assert.equal(alpha.reconciledWrites(reconciler, key), 0);
  assert.deepEqual(beta.calls, ['get', 'apply', 'get']);
  assert.equal(fleet.lines[0].fields.from, 'a');
  assert.equal(alpha.events[0].reason, 'Copied');
  alpha.remove(Recipe, key);
  assert.deepEqual(alpha.objects(), []);
});

test('a call fails as often as the test says', () => {
  const alpha = new Fleet().cluster('alpha');
  alpha.put({ ...Recipe, metadata: { ...key }, spec: {} });
  alpha.failNext('get', new ApiError({ code: 'timeout', message: 'no answer' }));
  assert.deepEqual(alpha.reconcile(reconciler, key), { outcome: 'retry', message: 'timeout: no answer' });
  assert.deepEqual(alpha.reconcile(reconciler, key), { outcome: 'done' });
  alpha.failNext('get', new ApiError({ code: 'timeout', message: 'no answer' }));
  const [failed, there] = alpha.client.batch([operation.get(Recipe, key), operation.get(Recipe, key)]);
  assert.equal(failed.status === 'rejected' && failed.reason.code, 'timeout');
  assert.equal(there.status, 'fulfilled');
});

test('a guest is described, and reads the time that the test sets', () => {
  const fleet = new Fleet();
  assert.equal(fleet.describe(reconciler).title, 'copies');
  fleet.now(new Date('2026-03-04T05:06:07Z'));
  assert.equal(fleet.run(now).toISOString(), '2026-03-04T05:06:07.000Z');
});

test('a mapper sees the cluster', () => {
  const fleet = new Fleet();
  const alpha = fleet.cluster('alpha');
  alpha.put({ ...ConfigMap, metadata: key });
  const mapper = defineMapper((cluster, kind) => cluster.list(kind).items.map(({ metadata }) => ({ ...key, name: `${metadata.name}!` })));
  assert.deepEqual(alpha.map(mapper, ConfigMap, []), [{ cluster: 'alpha', key: { ...key, name: 'a!' } }]);
  const message = 'this fleet has no cluster "gamma": the test names it with fleet.cluster';
  assert.throws(() => fleet.run(() => fleets.open('gamma')), { code: 'denied', message });
});

test('a batch of the fleet answers the errors of calls, and throws any other', () => {
  const fleet = new Fleet();
  const alpha = fleet.cluster('alpha');
  const get = operation.get(ConfigMap, key);
  const batch = () =>
    fleet.run(() =>
      fleets.batch([
        ['gamma', get],
        ['alpha', get],
      ]),
    );
  const [denied, absent] = batch();
  assert.equal(denied.status === 'rejected' && denied.reason.code, 'denied');
  assert.deepEqual(absent, { status: 'fulfilled', value: undefined });
  Object.freeze(alpha.calls);
  assert.throws(batch, TypeError);
});

test('every call arrives, and what the server answers comes back', () => {
  const { client } = new Fleet().cluster('alpha');
  const named = (/** @type {string} */ name) => ({ ...ConfigMap, metadata: { namespace: 'default', name, labels: { app: 'x' } } });
  const created = client.create({ ...named('a'), data: { text: 'line\u2028 \n 🍐' } });
  assert.equal(client.get(ConfigMap, key)?.data.text, 'line\u2028 \n 🍐');
  assert.equal(client.get(ConfigMap, key, { live: true, metadataOnly: true })?.data, undefined);
  client.update({ ...created, data: { x: '1' } });
  assert.throws(() => client.update({ ...created, data: { x: '2' } }), { code: 'conflict', status: 409, reason: 'Conflict' });
  assert.throws(() => client.create(named('a'), { dryRun: true }), { code: 'already-exists' });
  assert.deepEqual(client.patch(ConfigMap, key, [{ op: 'add', path: '/data/y', value: '2' }]).data, { x: '1', y: '2' });
  assert.deepEqual(client.patch(ConfigMap, key, { data: { x: null } }).data, { y: '2' });
  client.apply(named('b'), { force: true });
  const { items, continueToken } = client.list(ConfigMap, { namespace: 'default', labelSelector: 'app=x', limit: 1 });
  assert.deepEqual([items.length, typeof continueToken], [1, 'string']);
  assert.equal([...client.listAll(ConfigMap, { labelSelector: 'app=x', limit: 1 })].length, 2);
  assert.throws(() => client.delete(ConfigMap, key, { uid: 'another' }), { code: 'conflict' });
  assert.deepEqual([client.delete(ConfigMap, key, { propagation: 'background' }), client.delete(ConfigMap, key)], [true, false]);
  const [page, deleted] = values(client.batch([operation.list(ConfigMap, { labelSelector: 'app=x' }), operation.delete(ConfigMap, named('b'))]));
  assert.deepEqual([page.items.length, deleted], [1, undefined]);
  client.create(named('c'));
  client.deleteCollection(ConfigMap, { namespace: 'default', labelSelector: 'app=x' });
  assert.equal(client.get(ConfigMap, { ...key, name: 'c' }), undefined);
});

test('objects are checked as a server checks them', () => {
  const fleet = new Fleet();
  const { client } = fleet.cluster('alpha');
  assert.throws(() => client.create({ ...Deployment, metadata: key, spec: { replicas: 'two' } }), { code: 'invalid' });
  const Shape = kind('shapes.example/v1', 'Shape');
  assert.throws(() => client.get(Shape, key), { code: 'unknown-kind' });
  fleet.define(Shape);
  assert.equal(client.get(Shape, key), undefined);
  assert.throws(() => client.list(Shape, { index: ['by-color', 'blue'] }), { code: 'invalid', status: 422 });
});

test('a test writes as another writer, whose calls are not the guest’s', () => {
  const alpha = new Fleet().cluster('alpha');
  alpha.put({ ...Recipe, metadata: { ...key, labels: { a: 'b' } }, status: { phase: 'New' } });
  alpha.patch(Recipe, key, { metadata: { labels: { a: null } }, status: { phase: 'Old' } });
  const { metadata, status } = /** @type {any} */ (alpha.get(Recipe, key));
  assert.deepEqual([metadata.labels ?? {}, status], [{}, { phase: 'Old' }]);
  alpha.remove(Recipe, key);
  assert.equal(alpha.get(Recipe, key), undefined);
  assert.deepEqual(alpha.calls, []);
});

test('clusters change labels, fail, heal, leave and join again', () => {
  const fleet = new Fleet();
  fleet.cluster('alpha');
  const beta = fleet.cluster('beta', { labels: { region: 'eu', old: 'x' } });
  beta.put({ ...ConfigMap, metadata: key });
  const known = (/** @type {string} */ labelSelector) =>
    fleet.run(() => fleets.clusters({ labelSelector }).map(({ name, ready }) => [name, ready]));
  const read = () => fleet.run(() => fleets.open('beta').get(ConfigMap, key));
  beta.label({ region: 'us', old: null });
  assert.deepEqual([known('region=us'), known('old')], [[['beta', true]], []]);
  for (const failure of /** @type {const} */ (['errors', 'unreachable'])) {
    beta.fail(failure);
    assert.throws(read, ApiError);
  }
  assert.deepEqual(known('region=us'), [['beta', false]]);
  beta.heal();
  assert.notEqual(read(), undefined);
  beta.leave();
  assert.deepEqual(known(''), [['alpha', true]]);
  assert.throws(read, { code: 'denied' });
  fleet.cluster('beta');
  assert.notEqual(read(), undefined, 'it keeps its objects');
  assert.throws(() => beta.fail(/** @type {any} */ ('badly')), TypeError);
});

test('misuse of a fleet is refused', () => {
  const fleet = new Fleet();
  assert.deepEqual(fleet.run(() => fleets.clusters()), []);
  const alpha = fleet.cluster('alpha');
  assert.throws(() => alpha.failNext('get', /** @type {any} */ (new Error('no'))), TypeError);
  assert.throws(() => alpha.failNext(/** @type {any} */ ('watch'), new ApiError({ code: 'timeout', message: 'no answer' })), TypeError);
  assert.throws(() => alpha.remove(ConfigMap, key), /ConfigMap default\/a/);
  assert.throws(() => fleets.clusters(), /a Fleet or a Script of windlass-sdk\/testing/);
  assert.throws(() => fleet.run(() => fleets.clusters({ labelSelector: 'a like (b)' })), { code: 'invalid' });
});

test('without the program a fleet says how to get it', () => {
  const script = `
    import { Fleet } from 'windlass-sdk/testing';
    const fleet = new Fleet();
    try { fleet.cluster('alpha'); } catch {}
    fleet.cluster('alpha'); // fails again, and does not wait for ever
  `;
  const fails = (/** @type {string} */ program, /** @type {RegExp} */ message) => {
    const env = { ...process.env, WINDLASS_BIN: program };
    const ended = spawnSync(process.execPath, ['--input-type=module', '--eval', script], { env, encoding: 'utf8', cwd: import.meta.dirname });
    assert.match(ended.stderr, message);
  };
  fails('/nowhere/windlass', /\/nowhere\/windlass cannot be started: .*; put it on the PATH, or name it in WINDLASS_BIN/);
  fails('false', /windlass fleet did not start: its message is above/);
});
