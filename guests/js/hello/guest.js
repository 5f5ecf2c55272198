// Greets, as guests/hello does in Rust: for each ConfigMap labelled `hello.windlass.dev/greet`, keeps a ConfigMap
// `<name>-greeting` beside it.

import { config, controllerOf, controllerReference, defineReconciler, keyOf, kind, log } from 'windlass-sdk';

const ConfigMap = kind('v1', 'ConfigMap');

// The label that asks for a greeting; its value is the name in the greeting.
const GREET = 'hello.windlass.dev/greet';

// The configuration, with its defaults.
function configured() {
  const { greeting = 'hello' } = config();
  if (typeof greeting !== 'string') throw new Error(`config: expected a string, got greeting ${JSON.stringify(greeting)}`);
  return { greeting };
}

// The expected greeting.
function greeting(asking, who, cluster) {
  const { namespace, name } = asking.metadata;
  return {
    ...ConfigMap,
    metadata: { namespace, name: `${name}-greeting`, ownerReferences: [controllerReference(asking)] },
    data: { greeting: `${configured().greeting}, ${who}, from ${cluster}` },
  };
}

function isRight(present, wanted) {
  return JSON.stringify(present.data) === JSON.stringify(wanted.data) && controllerOf(present)?.uid === controllerOf(wanted)?.uid;
}

export const reconciler = defineReconciler({
  describe() {
    configured();
    return {
      title: 'greets the people that ConfigMaps name',
      watches: [
        { kind: ConfigMap, labelSelector: GREET },
        { kind: ConfigMap, enqueue: 'controller-owner' },
      ],
    };
  },

  reconcile({ key }, cluster) {
    const asking = cluster.get(ConfigMap, key); // absent: the garbage collector takes the greeting
    const who = asking?.metadata.labels?.[GREET];
    if (who === undefined || asking.metadata.deletionTimestamp) return;
    const wanted = greeting(asking, who, cluster.name);
    const present = cluster.get(ConfigMap, keyOf(wanted));
    if (present && isRight(present, wanted)) return;
    cluster.apply(wanted, { force: true });
    const { namespace, name } = wanted.metadata;
    cluster.event(asking, present ? 'GreetingChanged' : 'GreetingCreated', `${who} is greeted by ${name}`);
    log.info('greeted', { who, greeting: `${namespace}/${name}` });
  },
});
