/** Greets: keeps a ConfigMap `<name>-greeting` beside each ConfigMap labelled `hello.windlass.dev/greet`. */

import { type KubernetesObject, controllerReference, defineReconciler, kind, log } from 'windlass-sdk';

/** The parts of a ConfigMap that matter here. */
interface ConfigMap extends KubernetesObject {
  data?: Record<string, string>;
}
const ConfigMap = kind<ConfigMap>('v1', 'ConfigMap');

/** The label that asks for a greeting; its value is who is greeted. */
export const GREET = 'hello.windlass.dev/greet';

export const reconciler = defineReconciler({
  /** What is watched: those who ask, and the greetings, which lead back to their owner. */
  describe: () => ({
    title: 'greets whom ConfigMaps ask to greet',
    watches: [
      { kind: ConfigMap, labelSelector: GREET },
      { kind: ConfigMap, enqueue: 'controller-owner' },
    ],
  }),

  /**
   * Makes one greeting as it should be. Called again until it succeeds, and whenever something may have changed: a request
   * says what to look at, never what happened. What is thrown is tried again with growing delay.
   */
  reconcile({ key }, cluster) {
    // Reads come from the host's cache. What is gone needs nothing: the garbage collector takes what it owned.
    const asking = cluster.get(ConfigMap, key);
    const who = asking?.metadata.labels?.[GREET];
    if (!asking || !who) return;

    const name = `${key.name}-greeting`;
    const greeting = `hello, ${who}, from ${cluster.name}`;

    // Write only what differs.
    const present = cluster.get(ConfigMap, { ...key, name });
    if (present?.data?.greeting === greeting) return;

    const metadata = { ...key, name, ownerReferences: [controllerReference(asking)] };
    cluster.apply({ ...ConfigMap, metadata, data: { greeting } }, { force: true });
    cluster.event(asking, 'Greeted', `${who} is greeted by ${name}`);
    log.info('greeted', { who, greeting: name });
  },
});
