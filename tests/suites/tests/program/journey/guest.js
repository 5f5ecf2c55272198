/** Keeps a ConfigMap with the size of each Shelf. */

import { controllerReference, defineReconciler, kind } from 'windlass-sdk';
import { Shelf } from './shelf.ts';

const ConfigMap = kind('v1', 'ConfigMap');

export const reconciler = defineReconciler({
  describe: () => ({
    title: 'labels shelves',
    watches: [{ kind: Shelf }, { kind: ConfigMap, enqueue: 'controller-owner' }],
  }),

  reconcile({ key }, cluster) {
    const shelf = cluster.get(Shelf, key);
    if (!shelf) return;
    const metadata = { ...key, ownerReferences: [controllerReference(shelf)] };
    cluster.ensure({ ...ConfigMap, metadata, data: { text: `room for ${shelf.spec.size}` } });
    cluster.setStatus(Shelf, key, { phase: 'Labelled' });
  },
});
