/** Keeps the hub's ConfigMaps that are labelled in all other clusters, or in those that they select. */

import { FleetCluster, type KubernetesObject, defineMapper, defineReconciler, keyOf, kind } from 'windlass-sdk';
import * as fleet from 'windlass-sdk/fleet';

interface ConfigMap extends KubernetesObject {
  data?: Record<string, string>;
}
const ConfigMap = kind<ConfigMap>('v1', 'ConfigMap');

/** The label of originals, in the hub. */
const SPREAD = 'hub.windlass.dev/spread';
/** The annotation of originals with the labels of their clusters, as `kubectl -l` has them. Without it they are for all. */
const CLUSTERS = 'hub.windlass.dev/clusters';
/** The label of copies. Objects without it are never changed. */
const COPY = 'hub.windlass.dev/copy';

const has = (object: KubernetesObject | undefined, label: string) => label in (object?.metadata.labels ?? {});

const isFor = (original: KubernetesObject, cluster: string) =>
  fleet.clusters({ labelSelector: original.metadata.annotations?.[CLUSTERS] }).some(({ name }) => name === cluster);

export const reconciler = defineReconciler({
  describe: () => ({
    title: 'keeps ConfigMaps of the hub in all clusters',
    watches: [
      { kind: ConfigMap, labelSelector: COPY, clusters: 'provider' },
      { kind: ConfigMap, labelSelector: SPREAD, clusters: 'local', enqueue: 'mapped' },
      { kind: FleetCluster, changes: ['labels'], enqueue: 'mapped' },
    ],
  }),

  reconcile({ key }, cluster) {
    const original = fleet.local().get(ConfigMap, key);
    const copy = cluster.get(ConfigMap, key);
    if (!original || !has(original, SPREAD) || !isFor(original, cluster.name)) {
      if (has(copy, COPY)) cluster.delete(ConfigMap, key);
      return;
    }
    if (copy && !has(copy, COPY)) throw new Error(`${key.namespace}/${key.name} is there and no copy`);
    cluster.createOrUpdate(ConfigMap, key, (object) => {
      object.metadata.labels = { ...object.metadata.labels, [COPY]: 'yes' };
      object.data = original.data ?? {};
    });
  },
});

// The objects are the hub's: an original asks for a copy in each cluster, a cluster for a copy of each original.
export const mapper = defineMapper((hub, kind, objects) => {
  const object = objects.at(-1)!;
  if (kind.kind === FleetCluster.kind) {
    const originals = [...hub.listAll(ConfigMap, { labelSelector: SPREAD })];
    return originals.map((original) => ({ cluster: object.spec.name, key: keyOf(original) }));
  }
  const others = fleet.clusters().filter(({ name }) => name !== '');
  return others.map(({ name }) => ({ cluster: name, key: keyOf(object) }));
});
