/** The calls that the guest makes: `npm test`. */

import assert from 'node:assert/strict';
import test from 'node:test';
import { controllerReference, kind } from 'windlass-sdk';
import { Script } from 'windlass-sdk/testing';
import { GREET, reconciler } from './reconciler';

const ConfigMap = kind('v1', 'ConfigMap');
const key = { namespace: 'default', name: 'crew' };
const beside = { namespace: 'default', name: 'crew-greeting' };
const asking = { ...ConfigMap, metadata: { ...key, uid: '1', labels: { [GREET]: 'world' } } };
const greeting = {
  ...ConfigMap,
  metadata: { ...beside, ownerReferences: [controllerReference(asking)] },
  data: { greeting: 'hello, world, from alpha' },
};

test('a ConfigMap with the label is greeted once', () => {
  const script = new Script();
  const alpha = script.cluster('alpha');

  alpha.get(ConfigMap, key).answers(asking);
  alpha.get(ConfigMap, beside); // no answer: there is none
  alpha.apply(greeting, { force: true });
  assert.deepEqual(script.reconcile(reconciler, { cluster: 'alpha', key }), { outcome: 'done' });
  assert.equal(script.events[0]?.reason, 'Greeted');

  alpha.get(ConfigMap, key).answers(asking);
  alpha.get(ConfigMap, beside).answers(greeting);
  assert.deepEqual(script.reconcile(reconciler, { cluster: 'alpha', key }), { outcome: 'done' });
});

test('a ConfigMap without the label is not greeted', () => {
  const script = new Script();
  script
    .cluster('alpha')
    .get(ConfigMap, key)
    .answers({ ...ConfigMap, metadata: key });
  assert.deepEqual(script.reconcile(reconciler, { cluster: 'alpha', key }), { outcome: 'done' });
});
