/** The errors of a guest that a script finds. */

import assert, { AssertionError } from 'node:assert/strict';
import test from 'node:test';
import { defineReconciler, kind, operation } from 'windlass-sdk';
import * as fleet from 'windlass-sdk/fleet';
import { Script } from 'windlass-sdk/testing';

/** @import { Cluster } from 'windlass-sdk' */

const ConfigMap = kind('v1', 'ConfigMap');
const key = { namespace: 'default', name: 'a' };
const object = { ...ConfigMap, metadata: key };

/**
 * Runs a reconcile that ignores the errors of its calls.
 *
 * @param {Script} script
 * @param {(cluster: Cluster) => void} call
 */
function run(script, call) {
  const reconciler = defineReconciler({
    describe: () => ({ title: 'test' }),
    reconcile(_, cluster) {
      try {
        call(cluster);
      } catch {
        // A guest that handles every error does not hide one of the script.
      }
    },
  });
  return script.reconcile(reconciler, { cluster: 'alpha', key });
}

test('an unexpected call fails the reconcile, whatever the guest makes of it', () => {
  assert.throws(() => run(new Script(), (cluster) => cluster.get(ConfigMap, key)), {
    name: 'AssertionError',
    message: /does not expect: cluster "alpha"\.get\({"group":"","version":"v1","kind":"ConfigMap"}, {"namespace":"default","name":"a"}/,
  });
});

test('another call than the next one fails', () => {
  /** @type {((cluster: Cluster) => void)[]} */
  const others = [
    (cluster) => cluster.update(object),
    (cluster) => cluster.create({ ...object, data: {} }),
    (cluster) => cluster.create(object, { dryRun: true }),
    () => fleet.open('west').create(object),
  ];
  for (const other of others) {
    const script = new Script();
    script.cluster('alpha').create(object);
    script.cluster('west');
    assert.throws(() => run(script, other), AssertionError);
  }
});

test('calls that were not made fail, and are named', () => {
  const script = new Script();
  script.cluster('alpha').create(object);
  script.cluster('beta').delete(ConfigMap, key);
  assert.throws(() => run(script, (cluster) => cluster.create(object)), {
    message: /did not make this call:\n {2}cluster "beta"\.delete\(.*\nit came to {"outcome":"done"}/,
  });
});

test('calls that were not made before it threw fail too, and are not left to the next run', () => {
  const failing = defineReconciler({
    describe() {
      throw new Error('no');
    },
    reconcile() {},
  });
  const script = new Script();
  script.fleet.clusters();
  assert.throws(() => script.describe(failing), { message: /did not make this call:\n.*clusters.*\nit threw no$/ });
  assert.throws(() => script.describe(failing), { message: 'no' });
  assert.deepEqual(script.reconcile(failing, { cluster: 'alpha', key }), { outcome: 'done' });
});

test('a script goes on with the next reconcile', () => {
  const script = new Script();
  const alpha = script.cluster('alpha');
  alpha.create(object).fails('already-exists');
  assert.deepEqual(
    run(script, (cluster) => cluster.create(object)),
    { outcome: 'done' },
  );
  alpha.create(object);
  assert.deepEqual(
    run(script, (cluster) => cluster.create(object)),
    { outcome: 'done' },
  );
});

test('a call that needs an answer and has none fails', () => {
  const script = new Script();
  script.cluster('alpha').patch(ConfigMap, key, {});
  assert.throws(() => run(script, (cluster) => cluster.patch(ConfigMap, key, {})), /patch.* has no answer/);
  assert.throws(
    () =>
      new Script()
        .cluster('alpha')
        .batch([operation.create(object)])
        .answers([]),
    /1 operations needs as many answers, not 0/,
  );
});

test('a cluster that the script does not name cannot be opened', () => {
  assert.throws(() => run(new Script(), () => fleet.open('west')), /does not expect: fleet\.open\("west"\)/);
});

test('events and lines are kept', () => {
  const script = new Script();
  run(script, (cluster) => cluster.event(object, 'Odd', 'look', { type: 'warning', action: 'Watch' }));
  run(script, (cluster) => cluster.event(object, 'Fine', 'all is well'));
  assert.deepEqual(script.events, [
    { cluster: 'alpha', about: { ...ConfigMap, ...key }, type: 'warning', reason: 'Odd', action: 'Watch', note: 'look' },
    { cluster: 'alpha', about: { ...ConfigMap, ...key }, type: 'normal', reason: 'Fine', action: 'Reconcile', note: 'all is well' },
  ]);
});
