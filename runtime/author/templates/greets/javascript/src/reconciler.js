/** Greets: keeps a ConfigMap `<name>-greeting` beside each ConfigMap labelled `hello.windlass.dev/greet`. */

import { controllerReference, defineReconciler, kind, log } from 'windlass-sdk';

const ConfigMap = kind('v1', 'ConfigMap');

/** The label that asks for a greeting; its value is the name in the greeting. */
export const GREET = 'hello.windlass.dev/greet';

export const reconciler = defineReconciler({
  /** Watches the ConfigMaps with the label, and the greetings: an event on a greeting enqueues its owner. */
  describe: () => ({
    title: 'greets the people that ConfigMaps name',
    watches: [
      { kind: ConfigMap, labelSelector: GREET },
      { kind: ConfigMap, enqueue: 'controller-owner' },
    ],
  }),

  /**
   * Creates or updates one greeting. Called again until it succeeds, and after every change that may matter. A
   * request names an object and never an event. An error is retried with growing delay.
   */
  reconcile({ key }, cluster) {
    // Reads come from the host's cache. A deleted object needs nothing: the garbage collector deletes its greeting.
    const asking = cluster.get(ConfigMap, key);
    const who = asking?.metadata.labels?.[GREET];
    if (!asking || !who) return;

    const name = `${key.name}-greeting`;
    const greeting = `hello, ${who}, from ${cluster.name}`;

    // Write only the differences.
    const present = cluster.get(ConfigMap, { ...key, name });
    if (present?.data?.greeting === greeting) return;

    const metadata = { ...key, name, ownerReferences: [controllerReference(asking)] };
    cluster.apply({ ...ConfigMap, metadata, data: { greeting } }, { force: true });
    cluster.event(asking, 'Greeted', `${who} is greeted by ${name}`);
    log.info('greeted', { who, greeting: name });
  },
});
