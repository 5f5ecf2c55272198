// Greets, as guests/hello does in Rust: for each ConfigMap labelled `hello.windlass.dev/greet`, keeps a ConfigMap
// `<name>-greeting` beside it.

import { get as readConfig } from 'windlass:runtime/config@0.1.0';
import { write as log } from 'windlass:runtime/log@0.1.0';

const MAPS = { group: '', version: 'v1', kind: 'ConfigMap' };
const GREET = 'hello.windlass.dev/greet';
const CACHED = { mode: 'cached', projection: 'full', subresource: undefined };

// What the operator may configure, with its defaults.
function config() {
  const { greeting = 'hello' } = JSON.parse(readConfig());
  if (typeof greeting !== 'string') throw `config: expected a string, got greeting ${JSON.stringify(greeting)}`;
  return { greeting };
}

function watch(enqueue, labelSelector) {
  return {
    kind: MAPS, enqueue, clusters: 'as-configured', labelSelector, fieldSelector: undefined, changes: [], metadataOnly: false,
    options: [],
  };
}

function get(cluster, key) {
  const text = cluster.get(MAPS, key, CACHED);
  return text == null ? undefined : JSON.parse(text);
}

// The ConfigMap that should be there.
function greeting(asking, who, cluster) {
  const { namespace, name, uid } = asking.metadata;
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      namespace,
      name: `${name}-greeting`,
      ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name, uid, controller: true, blockOwnerDeletion: true }],
    },
    data: { greeting: `${config().greeting}, ${who}, from ${cluster}` },
  };
}

const owner = (map) => map.metadata.ownerReferences?.find((reference) => reference.controller)?.uid;

function isRight(present, wanted) {
  return JSON.stringify(present.data) === JSON.stringify(wanted.data) && owner(present) === owner(wanted);
}

function reconcile(key, cluster) {
  const asking = get(cluster, key); // absent: the garbage collector takes the greeting
  const who = asking?.metadata.labels?.[GREET];
  if (who === undefined || asking.metadata.deletionTimestamp) return;
  const wanted = greeting(asking, who, cluster.name());
  const { namespace, name } = wanted.metadata;
  const present = get(cluster, { namespace, name });
  if (present && isRight(present, wanted)) return;
  cluster.apply(MAPS, JSON.stringify(wanted), { subresource: undefined, force: true, dryRun: false });
  cluster.recordEvent({
    kind: MAPS, key, eventType: 'normal', reason: present ? 'GreetingChanged' : 'GreetingCreated', action: 'Reconcile',
    note: `${who} is greeted by ${name}`,
  });
  log('info', 'greeted', [['who', who], ['greeting', `${namespace}/${name}`]]);
}

// What a failed call or anything else thrown means to the host, which takes nothing but this.
function failure(error) {
  const said = error?.payload ? `${error.payload.code}: ${error.payload.message}` : String(error);
  return { tag: 'retry', val: said };
}

export const reconciler = {
  describe() {
    config();
    return {
      title: 'greets whom ConfigMaps ask to greet',
      primary: MAPS,
      watches: [watch({ tag: 'primary' }, GREET), watch({ tag: 'controller-owner' }, undefined)],
      indexes: [],
      options: [],
    };
  },

  reconcile({ key }, cluster) {
    try {
      reconcile(key, cluster);
      return { tag: 'done' };
    } catch (error) {
      throw failure(error);
    }
  },
};
