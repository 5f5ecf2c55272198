// Misbehaves in a way that needs a language with a runtime; its config says in which way.

import { get as readConfig } from 'windlass:runtime/config@0.1.0';

const MAPS = { group: '', version: 'v1', kind: 'ConfigMap' };

let kept;

const ways = {
  loop() {
    for (;;);
  },
  allocate() {
    for (const hoard = []; ;) hoard.push(new Array(100_000).fill(hoard.length));
  },
  recurse() {
    return 1 + ways.recurse();
  },
  backtrack() {
    return /^(a+)+$/.test(`${'a'.repeat(64)}b`);
  },
  'throw-number'() {
    throw 7;
  },
  'throw-error'() {
    throw new Error('nobody catches this');
  },
  'throw-nonsense'() {
    throw { tag: 'nonsense', val: [1, 2, 3] };
  },
  'answer-nonsense'() {
    return { tag: 'requeue-after-ms', val: 'soon' };
  },
  keep(cluster) {
    if (kept) throw { tag: 'terminal', val: `the kept handle is of ${kept.name()}` };
    kept = cluster;
    throw { tag: 'terminal', val: 'nothing was kept' };
  },
};

export const reconciler = {
  describe() {
    const watch = {
      kind: MAPS,
      enqueue: { tag: 'primary' },
      clusters: 'as-configured',
      labelSelector: 'test.windlass.dev/run',
      fieldSelector: undefined,
      changes: [],
      metadataOnly: false,
      options: [],
    };
    return { title: 'runs away', primary: MAPS, watches: [watch], indexes: [], options: [] };
  },

  reconcile(_, cluster) {
    return ways[JSON.parse(readConfig()).way](cluster);
  },
};
