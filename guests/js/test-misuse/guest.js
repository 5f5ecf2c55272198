// Misuses the SDK in the way that the name of an object says. Each misuse throws an error. A trap would end
// the instance, and would lose the count that is kept here.

import { TerminalError, defineReconciler, kind } from 'windlass-sdk';

const ConfigMap = kind('v1', 'ConfigMap');

let calls = 0;
let kept;

const caught = {
  'wrong-number': (cluster) => cluster.list(ConfigMap, { limit: 5_000_000_000 }),
  'wrong-shape': (cluster) => cluster.get('v1/ConfigMap', { name: 'a' }),
  misspelt: (cluster) => cluster.delete(ConfigMap, { name: 'a' }, { dryrun: true }),
  'wrong-operation': (cluster) => cluster.batch([{ tag: 'get', val: [] }]),
  keep: (cluster) => (kept = cluster),
  'use-kept': () => kept.get(ConfigMap, { name: 'a' }),
  calls() {
    console.warn('counted', calls, { calls });
    throw new Error(`${calls} calls`);
  },
};

const uncaught = {
  promise: async () => {},
  'wrong-answer': () => ({ requeueAfterMs: 2 ** 32 }),
  bug: () => undefined.name,
};

export const reconciler = defineReconciler({
  describe: () => ({ title: 'misuses the SDK', watches: [{ kind: ConfigMap, labelSelector: 'test.windlass.dev/run' }] }),

  reconcile({ key: { name } }, cluster) {
    calls++;
    if (name in uncaught) return uncaught[name]();
    try {
      caught[name](cluster);
    } catch (error) {
      throw new TerminalError(error);
    }
  },
});
