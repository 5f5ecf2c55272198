/** Keeps a ConfigMap with the text of each {{kind}}, and a copy of it in another namespace. */

import { defineReconciler, dependents, kind } from 'windlass-sdk';
import { {{type}} } from './{{stem}}';

const ConfigMap = kind('v1', 'ConfigMap');

/**
 * The kinds of the objects that a {{kind}} should have. It cannot own the copy, which is in another namespace: the finalizer waits
 * for its deletion. A controller without such objects needs no finalizer.
 */
const parts = dependents({ kinds: [ConfigMap], finalizer: '{{group}}/copy' });

export const reconciler = defineReconciler({
  /** Watches the kind, and its dependents: an event on one of them enqueues its owner. */
  describe: () => ({
    title: 'keeps a ConfigMap for each {{kind}}',
    watches: [{ kind: {{type}} }, ...parts.watches],
    indexes: parts.indexes,
  }),

  /**
   * Brings the dependents of one object to their desired state. Called again until it succeeds, and after every change
   * that may matter. A request names an object and never an event. An error is retried with growing delay.
   */
  reconcile({ key }, cluster) {
    // Reads come from the host's cache.
    const object = cluster.get({{type}}, key);
    if (!object) return;
    const { text, copyTo } = object.spec;
    // The name of the object alone may be that of a ConfigMap of somebody else.
    const name = `${key.name}-{{singular}}`;
    const keys = [{ ...key, name }];
    if (copyTo) keys.push({ namespace: copyTo, name: `${key.namespace}.${name}` });
    const desired = keys.map((metadata) => ({ ...ConfigMap, metadata, data: { text } }));

    // Applies what differs, deletes what is no longer desired, and sets the conditions Ready and Progressing.
    const status = { observedGeneration: object.metadata.generation };
    return parts.reconcile(cluster, object, desired, { status });
  },
});
