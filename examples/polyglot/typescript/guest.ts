/** Greets in one language: beside each ConfigMap labelled `polyglot.windlass.dev/greet` it keeps a ConfigMap `<name>-<language>`. */

import { type KubernetesObject, config, controllerReference, defineReconciler, kind, log } from 'windlass-sdk';

/** The parts of a ConfigMap that matter here. */
interface ConfigMap extends KubernetesObject {
  data?: Record<string, string>;
}
const ConfigMap = kind<ConfigMap>('v1', 'ConfigMap');

/** The label that asks for greetings; its value is the name in the greeting. */
const GREET = 'polyglot.windlass.dev/greet';

/** What the operator configures: the end of the greeting's name, and what is said. */
function settings(): { language: string; greeting: string } {
  const { language, greeting } = config<{ language?: unknown; greeting?: unknown }>();
  if (typeof language !== 'string' || typeof greeting !== 'string') throw new Error('config: expected a language and a greeting');
  return { language, greeting };
}

export const reconciler = defineReconciler({
  describe() {
    settings(); // wrong ones fail the load
    return {
      title: 'greets in one language, in TypeScript',
      watches: [
        { kind: ConfigMap, labelSelector: GREET },
        { kind: ConfigMap, enqueue: 'controller-owner' },
      ],
    };
  },

  reconcile({ key }, cluster) {
    const asking = cluster.get(ConfigMap, key);
    const who = asking?.metadata.labels?.[GREET];
    if (!asking || !who) return;

    const { language, greeting } = settings();
    const name = `${key.name}-${language}`;
    const data = { greeting: `${greeting}, ${who}, from ${cluster.name}` };
    if (cluster.get(ConfigMap, { ...key, name })?.data?.greeting === data.greeting) return;

    const metadata = { ...key, name, ownerReferences: [controllerReference(asking)] };
    cluster.apply({ ...ConfigMap, metadata, data }, { force: true });
    log.info('greeted', { who, greeting: name });
  },
});
