/** The cases that every SDK passes: `guest-sdk/spec`. */

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';
import * as sdk from 'windlass-sdk';
import { Cluster } from '../src/cluster.js';
import { fingerprint } from '../src/applied.js';
import { during } from '../src/host/native.js';

const FOLDER = new URL('../../spec/', import.meta.url);

const kindOf = (/** @type {string} */ text) => {
  const [kind = '', ...apiVersion] = text.split('/').reverse();
  return sdk.kind(apiVersion.reverse().join('/'), kind);
};
const keyFrom = (/** @type {string} */ text) => {
  const [name = '', namespace] = text.split('/').reverse();
  return namespace === undefined ? { name } : { namespace, name };
};
const kindText = (/** @type {any} */ { group, version, kind }) => [group, version, kind].filter(Boolean).join('/');
const keyText = (/** @type {any} */ { namespace, name }) => (namespace == null ? name : `${namespace}/${name}`);

/** Options that are set. */
const set = (/** @type {object} */ options) =>
  Object.fromEntries(Object.entries(options).filter(([name, value]) => value != null && value !== false && !DEFAULTS.includes(`${name}=${value}`)));
const DEFAULTS = ['mode=cached', 'projection=full', 'limit=0'];

/**
 * A call of the contract as the cases write it.
 *
 * @param {string} tag
 * @param {any[]} args
 */
function written(tag, args) {
  switch (tag) {
    case 'get': {
      const { mode, ...options } = args[2];
      return { call: tag, kind: kindText(args[0]), key: keyText(args[1]), ...set(options), ...(mode === 'live' && { live: true }) };
    }
    case 'delete':
      return { call: tag, kind: kindText(args[0]), key: keyText(args[1]), ...set(args[2]) };
    case 'list':
      return { call: tag, kind: kindText(args[0]), ...set(args[1]) };
    case 'patch':
      assert.equal(args[2], 'merge');
      return { call: tag, kind: kindText(args[0]), key: keyText(args[1]), patch: JSON.parse(args[3]), ...set(args[4]) };
    default:
      return { call: tag, object: JSON.parse(args[1]), ...set(args[2]) };
  }
}

const raw = (/** @type {any} */ { code, message, status = 0, details }) => ({
  code,
  message,
  httpStatus: status,
  reason: code,
  details: details && JSON.stringify(details),
});

/**
 * Runs a case with a host that expects its calls.
 *
 * @param {any} spec
 */
function run(spec) {
  const { do: what, with: given, calls = [], now = '2026-01-31T09:30:00.000Z' } = structuredClone(spec);
  /** @type {any[]} */
  const events = [];
  /** @type {any[]} */
  const logs = [];

  /** @param {object} made @returns {any} */
  const next = (made) => {
    const { answer, fails, ...expected } = calls.shift() ?? {};
    assert.deepEqual(made, expected);
    return { answer, fails };
  };
  /** @param {string} tag @param {any[]} args @param {{ answer?: any, fails?: any }} given */
  const answered = (tag, args, { answer, fails }) => {
    if (fails) throw Object.assign(new Error(fails.message), { payload: raw(fails) });
    if (tag === 'delete') return undefined;
    if (tag === 'list') return { resourceVersion: '1', ...answer, items: answer.items.map((/** @type {any} */ each) => JSON.stringify(each)) };
    if (answer === undefined) return args[1]; // what was sent
    return answer === null ? undefined : JSON.stringify(answer);
  };
  /** @type {any} */
  const handle = {
    name: () => 'alpha',
    batch(/** @type {any[]} */ operations) {
      const { calls: answers, ...batch } = calls.shift() ?? {};
      const stripped = answers?.map((/** @type {any} */ { answer, fails, ...call }) => call);
      assert.deepEqual({ call: 'batch', calls: operations.map(({ tag, val }) => written(tag, val)) }, { ...batch, calls: stripped });
      return operations.map(({ tag, val }, at) => {
        try {
          const value = answered(tag, val, answers[at]);
          return { tag: 'ok', val: value === undefined ? { tag: 'nothing' } : { tag: tag === 'list' ? 'page' : 'object', val: value } };
        } catch (error) {
          return { tag: 'err', val: /** @type {any} */ (error).payload };
        }
      });
    },
    recordEvent: (/** @type {any} */ { kind, key, eventType, ...rest }) =>
      events.push({ kind: kindText(kind), key: keyText(key), warning: eventType === 'warning', ...rest }),
  };
  for (const tag of ['get', 'list', 'create', 'update', 'patch', 'apply', 'delete']) {
    handle[tag] = (/** @type {any[]} */ ...args) => answered(tag, args, next(written(tag, args)));
  }
  const host = {
    config: () => '{}',
    now: () => now,
    log: (/** @type {string} */ level, /** @type {string} */ message, /** @type {any[]} */ fields) =>
      void logs.push({ level, message, fields: Object.fromEntries(fields) }),
    fleet: /** @type {any} */ (undefined),
    http: /** @type {any} */ (undefined),
  };

  /** @param {any} cleanup */
  const cleaning = (cleanup) => () => {
    assert.deepEqual(calls.shift(), { call: 'cleanup' });
    if (cleanup.notReady) throw new sdk.NotReady(cleanup.notReady.message, { seconds: cleanup.notReady.seconds });
    if (cleanup.fails) throw new sdk.ApiError(cleanup.fails);
  };
  /** @param {any} options */
  const declared = ({ kinds, recreate = [], finalizer, ready, recheckSeconds }) =>
    sdk.dependents({
      kinds: kinds.map(kindOf),
      recreate: recreate.map(kindOf),
      ...(finalizer && { finalizer }),
      ...(ready && { ready: (object) => (object.kind in ready ? ready[object.kind] : sdk.readiness(object)) }),
      ...(recheckSeconds && { recheck: { seconds: recheckSeconds } }),
    });

  /** What a reconcile ends with, as the export answers it. @param {() => any} body */
  const reconciled = (body) => {
    /** @type {any} */
    let failure;
    const inner = () => {
      try {
        return body();
      } catch (error) {
        failure = error;
        throw error;
      }
    };
    const guest = sdk.defineReconciler({ describe: () => ({ title: '' }), reconcile: inner });
    try {
      const action = guest.reconcile({ cluster: 'alpha', key: { name: 'a' } }, handle);
      return action.tag === 'done' ? { done: true } : { requeueAfterMs: action.val };
    } catch {
      throw failure;
    }
  };

  const cluster = new Cluster(handle);
  /** @type {Record<string, () => any>} */
  const doing = {
    condition: () => sdk.condition(given.object, given.type),
    setCondition: () => sdk.setCondition(given.object, given.condition),
    isDeleting: () => sdk.isDeleting(given.object),
    hasFinalizer: () => sdk.hasFinalizer(given.object, given.finalizer),
    ensureFinalizer: () => cluster.ensureFinalizer(given.object, given.finalizer),
    removeFinalizer: () => cluster.removeFinalizer(given.object, given.finalizer),
    ownerReference: () => sdk.ownerReference(given.owner),
    controllerReference: () => sdk.controllerReference(given.owner),
    setOwner: () => sdk.setOwner(given.object, given.owner),
    setController: () => sdk.setController(given.object, given.owner),
    controllerOf: () => sdk.controllerOf(given.object),
    ensure: () => cluster.ensure(given.object),
    createOrUpdate: () => cluster.createOrUpdate(kindOf(given.kind), keyFrom(given.key), (object) => Object.assign(object, given.set)),
    setStatus: () => cluster.setStatus(kindOf(given.kind), keyFrom(given.key), given.status),
    event: () => cluster.event(given.about, given.reason, given.note, given.warning ? { type: 'warning' } : {}),
    listAll: () => {
      const names = [];
      const { kind, take = Infinity, ...options } = given;
      for (const { metadata } of cluster.listAll(kindOf(kind), options)) if (names.push(metadata.name) >= take) break;
      return names;
    },
    requeueAfter: () => sdk.requeueAfter({ seconds: given.seconds }),
    notReady: () =>
      reconciled(() => {
        throw new sdk.NotReady(given.message, { seconds: given.seconds });
      }),
    readiness: () => sdk.readiness(given.object),
    fingerprint: () => fingerprint(given.value),
    dependents: () =>
      reconciled(() => {
        const { status, cleanup } = given;
        const options = { ...(status && { status }), ...(cleanup && { cleanup: cleaning(cleanup) }) };
        return declared(given).reconcile(/** @type {any} */ (cluster), given.primary, given.desired, options);
      }),
    describeDependents: () => {
      const { watches, indexes } = declared(given);
      const texts = (/** @type {any[]} */ all) => all.map((each) => ({ ...each, kind: `${each.kind.apiVersion}/${each.kind.kind}` }));
      return { watches: texts(watches), indexes: texts(indexes) };
    },
  };

  /** @type {any} */
  let failure;
  let returned;
  try {
    returned = during(host, () => doing[what]());
  } catch (error) {
    if (!(error instanceof sdk.ApiError) || !spec.fails) throw error;
    failure = { code: error.code, message: error.message };
  }
  assert.deepEqual(failure, spec.fails);
  if ('returns' in spec) assert.deepEqual(returned ?? null, spec.returns);
  if ('object' in spec) assert.deepEqual(given.object, spec.object);
  assert.deepEqual(calls, [], 'calls that were not made');
  assert.deepEqual(events, spec.events ?? []);
  assert.deepEqual(logs, spec.logs ?? []);
}

for (const file of readdirSync(FOLDER).filter((name) => name.endsWith('.json'))) {
  const { about, cases } = JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8'));
  test(about, async (of) => {
    for (const each of cases) await of.test(each.name, () => run(each));
  });
}
