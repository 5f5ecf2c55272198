/** Tests of the guest, in a cluster in memory: `npm test`. */

import assert from 'node:assert/strict';
import test from 'node:test';
import { kind } from 'windlass-sdk';
import { Fleet } from 'windlass-sdk/testing';
import { reconciler } from './reconciler';

const Own = kind('{{group}}/{{version}}', '{{kind}}');
const ConfigMap = kind('v1', 'ConfigMap');
const Namespace = kind('v1', 'Namespace');
const key = { namespace: 'default', name: 'example' };
const own = { ...key, name: 'example-{{singular}}' };
const copy = { namespace: 'copies', name: 'default.example-{{singular}}' };

/** A cluster with an object that has a copy. */
function example() {
  const alpha = new Fleet().cluster('alpha');
  alpha.put({ ...Namespace, metadata: { name: 'copies' } });
  alpha.put({ ...Own, metadata: key, spec: { text: 'hello', copyTo: 'copies' } });
  return alpha;
}

test('an object has a ConfigMap and a copy', () => {
  const alpha = example();
  assert.deepEqual(alpha.reconcile(reconciler, key), { outcome: 'done' });
  assert.equal(alpha.get(ConfigMap, own)?.data.text, 'hello');
  assert.equal(alpha.get(ConfigMap, copy)?.data.text, 'hello');

  const object = alpha.get(Own, key);
  assert.equal(object?.status.observedGeneration, object?.metadata.generation);
  const conditions = new Map(object?.status.conditions.map((one: { type: string; status: string }) => [one.type, one.status]));
  assert.equal(conditions.get('Ready'), 'True');

  assert.equal(alpha.reconciledWrites(reconciler, key), 0);
});

test('the copy goes before the object', () => {
  const alpha = example();
  alpha.reconcile(reconciler, key);
  alpha.remove(Own, key);
  assert.ok(alpha.get(Own, key), 'the finalizer holds it');

  assert.deepEqual(alpha.reconcile(reconciler, key), { outcome: 'done' });
  assert.equal(alpha.get(ConfigMap, copy), undefined);
  assert.equal(alpha.get(Own, key), undefined);
});
