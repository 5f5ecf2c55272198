/**
 * The conformance reconciler in TypeScript: `guests/conformance/README.md` says what each case calls and logs. Entry points:
 * `reconciler` and `mapper`.
 */

import { type Cluster, type KubernetesObject, Retry, config, defineMapper, defineReconciler, kind, log } from 'windlass-sdk';
import * as fleet from 'windlass-sdk/fleet';
import { end } from './ending';
import { cancelled, codes, limits } from './failing';
import { across, clusters, open } from './others';
import { list, many, read } from './reading';
import { ConfigMap, Deployment, type Scene, named, refuse, shown } from './scene';
import { http } from './servers';
import { clock, configuration, events, lines, random } from './settings';
import { apply, batch, collection, create, ensure, large, patch, remove, status, text, update } from './writing';

/** The label of a ConfigMap that asks for a case. Its value is the case's name. */
const CASE = 'conformance.windlass.dev/case';
/** The label of a Secret that asks for requests. */
const ASK = 'conformance.windlass.dev/ask';
/** The annotation of such a Secret: the cluster that is asked for. */
const FOR = 'conformance.windlass.dev/for';

/** The cases that end in `done`. */
const CASES: Record<string, (scene: Scene) => void> = {
  read, list, many,
  create, update, patch, apply, status, delete: remove, ensure, collection, batch, text, large,
  events, log: lines, config: configuration, clock, random,
  clusters, open, across, http,
  codes, limits, cancelled,
}; // prettier-ignore

export const reconciler = defineReconciler({
  describe() {
    const { refuse, later } = config<{ refuse?: string; later?: string }>();
    if (refuse) throw new Error(refuse);
    const options = (part: string): Record<string, string> => (part === later ? { later: 'yes' } : {});
    return {
      title: 'walks through the contract',
      watches: [
        { kind: ConfigMap, clusters: 'provider', changes: ['labels', 'annotations'] },
        { kind: Deployment, enqueue: 'controller-owner', changes: ['generation', 'status'] },
        { kind: kind('v1', 'Secret'), enqueue: 'mapped', labelSelector: ASK, metadataOnly: true },
        { kind: kind('v1', 'ServiceAccount'), enqueue: 'any-owner' },
        { kind: kind('v1', 'PersistentVolumeClaim'), enqueue: 'same-name', fieldSelector: 'metadata.namespace!=kube-system' },
        { kind: kind('v1', 'Service'), enqueue: { byIndex: 'service' }, options: options('watch') },
      ],
      indexes: [
        { kind: ConfigMap, name: 'color', path: 'data.color' },
        { kind: ConfigMap, name: 'service', path: 'data.service', namespacePath: "data['service.namespace']", options: options('index') },
      ],
      options: options('description'),
    };
  },

  reconcile({ key }, cluster) {
    const primary = cluster.get(ConfigMap, key);
    if (!primary) {
      log.info('gone', { key: `${key.namespace}/${key.name}` });
      return;
    }
    const name = primary.metadata.labels?.[CASE];
    if (name === undefined) return;
    const scene = { cluster, primary, namespace: key.namespace ?? '', at: (name: string) => ({ ...key, name }) };
    const run = CASES[name];
    return run ? run(scene) : end(name, scene);
  },
});

export const mapper = defineMapper((cluster: Cluster, { apiVersion, kind }, objects: KubernetesObject[]) => {
  const newest = objects.at(-1)?.metadata;
  const asked = newest?.annotations?.[FOR];
  if (!newest || asked === undefined) throw new Retry('no cluster is asked for');
  const { namespace } = newest;
  const apple = { namespace, name: 'apple' };
  log.info('mapped', {
    kind: `${apiVersion}/${kind}`,
    objects: objects.length,
    color: shown(cluster.get(ConfigMap, apple)?.data?.color),
    clusters: named(fleet.clusters()),
  });
  refuse('live', () => cluster.get(ConfigMap, apple, { live: true }));
  return [{ cluster: asked, key: { namespace, name: 'asked' } }];
});
