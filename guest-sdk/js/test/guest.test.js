/** The contract's values for a guest's definitions. */

import assert from 'node:assert/strict';
import test from 'node:test';
import { ApiError, NotReady, Retry, TerminalError, config, defineMapper, defineReconciler, kind, log, now, requeueAfter } from 'windlass-sdk';
import { Script } from 'windlass-sdk/testing';
import { during } from '../src/host/native.js';
import { frames } from '../src/stack.js';

const Pod = kind('v1', 'Pod');
const Deployment = kind('apps/v1', 'Deployment');
const request = { cluster: 'alpha', key: { namespace: 'default', name: 'a' } };

/** @param {any} reconcile */
const reconciling = (reconcile) => defineReconciler({ describe: () => ({ title: 'test' }), reconcile });

/** @param {any} describe */
const describing = (describe) => defineReconciler({ describe, reconcile() {} });

/** @param {any} thrown */
const throwing = (thrown) =>
  reconciling(() => {
    throw thrown;
  });

/**
 * What the host is told of a reconcile that fails.
 *
 * @param {any} reconciler
 */
function told(reconciler) {
  /** @type {any} */
  const host = { config: () => '{}', now: () => '', log() {} };
  try {
    return during(host, () => reconciler.reconcile(request, {}));
  } catch (error) {
    const { tag, val } = /** @type {any} */ (error);
    return { outcome: tag, message: val };
  }
}

test('what a guest throws by mistake is thrown in a test too, and what ends a run by intent is its outcome', () => {
  for (const mistake of [new TypeError('no text'), new Error('broken'), 'plain']) {
    assert.throws(
      () => new Script().reconcile(throwing(mistake), request),
      (error) => error === mistake,
    );
  }
  for (const meant of [new Retry('soon'), new ApiError({ code: 'timeout', message: 'soon' })]) {
    assert.equal(new Script().reconcile(throwing(meant), request).outcome, 'retry');
  }
  assert.equal(new Script().reconcile(throwing(new TerminalError('never')), request).outcome, 'terminal');
});

test('a description gets every default, and its primary kind from its watch', () => {
  const reconciler = describing(() => ({
    title: 'all of it',
    watches: [
      { kind: Deployment },
      {
        kind: Pod,
        enqueue: { byIndex: 'by-node' },
        clusters: 'all',
        labelSelector: 'a=b',
        fieldSelector: 'metadata.name=x',
        changes: ['generation'],
        metadataOnly: true,
        options: { later: 'yes' },
      },
    ],
    indexes: [{ kind: Deployment, name: 'by-node', path: 'spec.node' }],
  }));
  const gvk = { group: 'apps', version: 'v1', kind: 'Deployment' };
  const unset = { labelSelector: undefined, fieldSelector: undefined, changes: [], metadataOnly: false, options: [] };
  assert.deepEqual(new Script().describe(reconciler), {
    title: 'all of it',
    primary: gvk,
    watches: [
      { kind: gvk, enqueue: { tag: 'primary' }, clusters: 'as-configured', ...unset },
      {
        kind: { group: '', version: 'v1', kind: 'Pod' },
        enqueue: { tag: 'by-index', val: 'by-node' },
        clusters: 'all',
        labelSelector: 'a=b',
        fieldSelector: 'metadata.name=x',
        changes: ['generation'],
        metadataOnly: true,
        options: [['later', 'yes']],
      },
    ],
    indexes: [{ kind: gvk, name: 'by-node', path: 'spec.node', namespacePath: undefined, options: [] }],
    options: [],
  });
  assert.deepEqual(new Script().describe(describing(() => ({ title: 'named', primary: Pod }))).primary, {
    group: '',
    version: 'v1',
    kind: 'Pod',
  });
});

test('a description that the contract cannot carry fails the load in words', () => {
  /** @type {[any, RegExp][]} */
  const wrong = [
    [{}, /title: expected a string/],
    [{ title: 't', watches: [{ kind: Pod, enqueue: 'owner' }] }, /watches\[0\].enqueue: expected one of primary, controller-owner/],
    [{ title: 't', watches: [{ kind: Pod, labels: 'x' }] }, /watches\[0\]: there is no labels; known are kind, enqueue/],
    [{ title: 't', watches: [{ kind: Pod, changes: ['spec'] }] }, /watches\[0\].changes\[0\]: expected one of generation/],
    [{ title: 't', indexes: [{ kind: Pod, name: 'x' }] }, /indexes\[0\].path: expected a string/],
    [Promise.resolve({ title: 't' }), /describe returned a promise: make it a plain function/],
  ];
  for (const [description, message] of wrong) assert.throws(() => new Script().describe(describing(() => description)), { message });
});

test('a reconcile returns nothing, or when to run again', () => {
  const outcome = (/** @type {any} */ answer) =>
    new Script().reconcile(
      reconciling(() => answer),
      request,
    );
  assert.deepEqual(outcome(undefined), { outcome: 'done' });
  assert.deepEqual(outcome(requeueAfter(0)), { outcome: 'requeue', afterMs: 0 });
  assert.deepEqual(outcome(requeueAfter(1499.5)), { outcome: 'requeue', afterMs: 1500 });
  assert.deepEqual(outcome(requeueAfter(0.0004)), { outcome: 'requeue', afterMs: 1 });
  for (const beyond of [2 ** 32, Infinity]) assert.deepEqual(outcome(requeueAfter(beyond)), { outcome: 'requeue', afterMs: 2 ** 32 - 1 });
  for (const beyond of [-1, NaN]) assert.throws(() => requeueAfter(beyond), RangeError);
  assert.deepEqual(told(reconciling(() => ({ requeueAfterMs: 2 ** 32 }))).outcome, 'retry');
  const later = told(reconciling(() => 'later'));
  assert.deepEqual(later, { outcome: 'retry', message: 'TypeError: what reconcile returned: expected an object, got "later"' });
  assert.match(JSON.stringify(told(reconciling(() => Promise.resolve()))), /reconcile returned a promise/);
});

test('what is thrown is retried, unless it is terminal', () => {
  const conflict = new ApiError({ code: 'conflict', message: 'the object has changed', status: 409 });
  /** @type {[any, string, string][]} */
  const thrown = [
    [conflict, 'retry', 'conflict: the object has changed'],
    [new Error('writing the child', { cause: conflict }), 'retry', 'writing the child: conflict: the object has changed'],
    [new TerminalError('writing the child', { cause: conflict }), 'terminal', 'writing the child: conflict: the object has changed'],
    [new TerminalError(conflict), 'terminal', 'conflict: the object has changed'],
    [new RangeError('too far'), 'retry', 'RangeError: too far'],
    ['plain', 'retry', 'plain'],
    [7, 'retry', '7'],
    [{ tag: 'terminal' }, 'retry', '{"tag":"terminal"}'],
    [undefined, 'retry', 'undefined was thrown'],
  ];
  for (const [error, outcome, message] of thrown) assert.deepEqual(told(throwing(error)), { outcome, message });
});

test('an error that is its own cause is told', () => {
  const error = new Error('round');
  error.cause = error;
  const outcome = told(throwing(error));
  assert.match(JSON.stringify(outcome), /round: round/);
});

test('an exception and an error of a call tell where they were thrown, if the build has told the lines, and what ends a run does not', () => {
  const outcome = (/** @type {Error} */ error) => {
    error.stack = '    at greet (guest.js:12:7)\n';
    return told(throwing(error));
  };
  const broken = new Error('broken');
  assert.deepEqual(outcome(broken), { outcome: 'retry', message: 'broken' });
  /** @type {any} */ (globalThis).windlassSourceLines = { files: ['src/guest.ts'], runs: [[11, 4, 0, 3]] };
  try {
    assert.deepEqual(outcome(broken), { outcome: 'retry', message: 'broken\nat greet src/guest.ts:4' });
    assert.deepEqual(outcome(new TerminalError('wrong')), { outcome: 'terminal', message: 'wrong' });
    assert.deepEqual(outcome(new Retry('soon')), { outcome: 'retry', message: 'soon' });
    const unanswered = new ApiError({ code: 'timeout', message: 'no answer' });
    assert.deepEqual(outcome(unanswered), { outcome: 'retry', message: 'timeout: no answer\nat greet src/guest.ts:4' });
    const waiting = new NotReady('not there yet', 5);
    waiting.stack = broken.stack;
    const described = describing(() => {
      throw waiting;
    });
    assert.throws(() => new Script().describe(described), { message: 'NotReady: not there yet' });
  } finally {
    delete (/** @type {any} */ (globalThis).windlassSourceLines);
  }
});

test('a stack has the lines of the author’s files, if the build has told them', () => {
  const stack = '    at greet (guest.js:12:7)\n    at <anonymous> (guest.js:40:1)\n    at guest.js:13\n    at native\n';
  assert.deepEqual(frames(stack), []);
  /** @type {any} */ (globalThis).windlassSourceLines = { files: ['sdk.js', 'src/guest.ts'], runs: [[11, 4, 1, 3]] };
  try {
    assert.deepEqual(frames(stack), ['at greet src/guest.ts:4', 'at src/guest.ts:5']);
  } finally {
    delete (/** @type {any} */ (globalThis).windlassSourceLines);
  }
});

test('config, time and log are the host’s', () => {
  const script = new Script({ config: { greeting: 'salut' }, now: '2027-01-01T00:00:00Z' });
  const reconciler = reconciling(() => {
    log.info('greeted', {
      greeting: config().greeting,
      at: now(),
      count: 3,
      key: request.key,
      missing: undefined,
      error: new TypeError('no'),
    });
    log.debug('nothing');
  });
  assert.deepEqual(script.reconcile(reconciler, request), { outcome: 'done' });
  const fields = {
    greeting: 'salut',
    at: '"2027-01-01T00:00:00.000Z"',
    count: '3',
    key: '{"namespace":"default","name":"a"}',
    missing: 'undefined',
    error: 'TypeError: no',
  };
  assert.deepEqual(script.lines, [
    { level: 'info', message: 'greeted', fields },
    { level: 'debug', message: 'nothing', fields: {} },
  ]);
  assert.throws(() => config(), /no host outside of a component/);
});

test('a mapper turns objects into requests, of its own cluster unless it says another', () => {
  const mapper = defineMapper((cluster, kind, objects) => [
    ...objects.map(({ metadata: { name } }) => ({ name: `${kind.apiVersion}-${kind.kind}-${name}` })),
    { cluster: 'west', key: objects[0] },
    { key: { namespace: cluster.name, name: 'b' } },
  ]);
  const pod = { ...Pod, metadata: { namespace: 'default', name: 'a' } };
  assert.deepEqual(new Script().map(mapper, 'alpha', Pod, [pod]), [
    { cluster: 'alpha', key: { name: 'v1-Pod-a' } },
    { cluster: 'west', key: { namespace: 'default', name: 'a' } },
    { cluster: 'alpha', key: { namespace: 'alpha', name: 'b' } },
  ]);
  const wrong = defineMapper(() => [/** @type {any} */ ('a')]);
  assert.throws(() => new Script().map(wrong, 'alpha', Pod, []), { message: /requests\[0\]: expected an object, got "a"/ });
});
