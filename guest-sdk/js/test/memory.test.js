/** The cluster in memory: the cases of `guest-sdk/spec/memory`, which every SDK passes, and a guest on it. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import test from 'node:test';
import { ApiError, defineMapper, defineReconciler, dependents, kind, log, now, operation } from 'windlass-sdk';
import * as fleets from 'windlass-sdk/fleet';
import { Fleet } from 'windlass-sdk/testing';

const CASES = new URL('../../spec/memory/cases.json', import.meta.url);
const ConfigMap = kind('v1', 'ConfigMap');
const Secret = kind('v1', 'Secret');

/** @param {string} text */
function kindOf(text) {
  const at = text.lastIndexOf('/');
  return kind(text.slice(0, at), text.slice(at + 1));
}

/** @param {string} text */
function keyOf(text) {
  const [namespace, name] = text.split('/');
  return { namespace, name };
}

/**
 * At least the expected fields; null: the field is not there.
 *
 * @param {any} found
 * @param {any} expected
 * @returns {boolean}
 */
function has(found, expected) {
  if (expected === null) return found === undefined;
  if (typeof expected !== 'object' || Array.isArray(expected)) return JSON.stringify(found) === JSON.stringify(expected);
  return Object.entries(expected).every(([field, value]) => has(found?.[field], value));
}

/**
 * @param {import('windlass-sdk/testing').TestCluster} alpha
 * @param {any} step
 */
function take(alpha, step) {
  const { client } = alpha;
  const { kind: of, key: at, patch, ...options } = step.get ?? step.list ?? step.patch ?? step.delete ?? step.deleteCollection ?? step.remove ?? {};
  const [type, key] = [of && kindOf(of), at && keyOf(at)];
  if (step.put) return alpha.put(step.put);
  if (step.remove) return alpha.remove(type, key);
  if (step.create) return client.create(step.create);
  if (step.update) return step.status ? client.updateStatus(step.update) : client.update(step.update);
  if (step.apply) return client.apply(step.apply, step.status ? { subresource: 'status' } : {});
  if (step.patch) return client.patch(type, key, patch, step.status ? { subresource: 'status' } : {});
  if (step.get) return client.get(type, key);
  if (step.delete) return client.delete(type, key, options);
  if (step.deleteCollection) return client.deleteCollection(type, options);
  const page = client.list(type, options);
  assert.equal(page.continueToken !== undefined, step.more ?? false);
  return page.items.map((/** @type {any} */ { metadata }) => metadata.name);
}

test('the cases of the specification', { skip: !existsSync(CASES) }, async (context) => {
  for (const { name, steps } of JSON.parse(readFileSync(CASES, 'utf8')).cases) {
    await context.test(name, () => {
      const alpha = new Fleet().cluster('alpha');
      for (const step of steps) {
        /** @type {any} */
        let came;
        try {
          came = take(alpha, step);
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          assert.equal(error.code, step.fails, JSON.stringify(step));
          continue;
        }
        assert.equal(step.fails, undefined, `${JSON.stringify(step)} came to ${JSON.stringify(came)}`);
        if ('answer' in step) assert.ok(has(came, step.answer), `${JSON.stringify(step)} came to ${JSON.stringify(came)}`);
      }
    });
  }
});

const parts = dependents({ kinds: [Secret] });
const reconciler = defineReconciler({
  describe: () => ({ title: 'copies', watches: [{ kind: ConfigMap }] }),
  reconcile({ key }, cluster) {
    const map = cluster.get(ConfigMap, key);
    if (!map) return;
    for (const { name } of fleets.clusters({ labelSelector: 'tier=prod' })) fleets.open(name).ensure({ ...ConfigMap, metadata: key, data: map.data });
    cluster.event(map, 'Copied', 'it is copied');
    log.info('copied', { from: key.name });
    return parts.reconcile(cluster, map, [{ ...Secret, metadata: key, stringData: map.data }]);
  },
});

test('a guest keeps its objects, and has nothing to do the second time', () => {
  const fleet = new Fleet({ now: '2026-02-01T00:00:00Z' });
  const alpha = fleet.cluster('alpha');
  const beta = fleet.cluster('beta', { labels: { tier: 'prod' } });
  const key = { namespace: 'default', name: 'a' };
  alpha.put({ ...ConfigMap, metadata: { ...key }, data: { x: '1' } });
  assert.deepEqual(alpha.reconcile(reconciler, key), { outcome: 'done' });
  assert.deepEqual(alpha.get(Secret, key)?.stringData, { x: '1' });
  assert.deepEqual(beta.get(ConfigMap, key)?.data, { x: '1' });
  const { conditions } = /** @type {any} */ (alpha.get(ConfigMap, key)?.status);
  assert.equal(conditions[0].lastTransitionTime, '2026-02-01T00:00:00Z');
  assert.equal(alpha.reconciledWrites(reconciler, key), 0);
  assert.deepEqual(beta.calls, ['get', 'apply', 'get']);
  assert.equal(fleet.lines[0].fields.from, 'a');
  assert.equal(alpha.events[0].reason, 'Copied');
  alpha.remove(ConfigMap, key);
  assert.deepEqual(alpha.objects(), []);
});

test('a call fails as often as the test says', () => {
  const alpha = new Fleet().cluster('alpha');
  const key = { namespace: 'default', name: 'a' };
  alpha.put({ ...ConfigMap, metadata: { ...key } });
  alpha.failNext('get', new ApiError({ code: 'timeout', message: 'no answer' }));
  assert.deepEqual(alpha.reconcile(reconciler, key), { outcome: 'retry', message: 'timeout: no answer' });
  assert.deepEqual(alpha.reconcile(reconciler, key), { outcome: 'done' });
  alpha.failNext('get', new ApiError({ code: 'timeout', message: 'no answer' }));
  const [failed, there] = alpha.client.batch([operation.get(ConfigMap, key), operation.get(ConfigMap, key)]);
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
  alpha.put({ ...ConfigMap, metadata: { namespace: 'n', name: 'a' } });
  const mapper = defineMapper((cluster, kind) => cluster.list(kind).items.map(({ metadata }) => ({ namespace: metadata.namespace, name: `${metadata.name}!` })));
  assert.deepEqual(alpha.map(mapper, ConfigMap, []), [{ cluster: 'alpha', key: { namespace: 'n', name: 'a!' } }]);
  const message = 'this fleet has no cluster "gamma": the test names it with fleet.cluster';
  assert.throws(() => fleet.run(() => fleets.open('gamma')), { code: 'denied', message });
});

test('a batch of the fleet answers the errors of calls, and throws any other', () => {
  const fleet = new Fleet();
  const alpha = fleet.cluster('alpha');
  const get = operation.get(ConfigMap, { name: 'a' });
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

test('misuse of a fleet is refused', () => {
  const alpha = new Fleet().cluster('alpha');
  assert.throws(() => alpha.failNext('get', /** @type {any} */ (new Error('no'))), TypeError);
  assert.throws(() => alpha.failNext(/** @type {any} */ ('watch'), new ApiError({ code: 'timeout', message: 'no answer' })), TypeError);
  assert.throws(() => fleets.clusters(), /a Fleet or a Script of windlass-sdk\/testing/);
  assert.throws(() => new Fleet().run(() => fleets.clusters({ labelSelector: 'a like (b)' })), { code: 'invalid' });
});
