/** Cases about writes. Entry points: a function for each. */

import { ApiError, type KubernetesObject, type Result, controllerOf, controllerReference, log, operation } from 'windlass-sdk';
import { ConfigMap, Deployment, type Scene, configMap, named, refuse, refused, shown } from './scene';

/** One value of a ConfigMap's data. */
const value = (map: ConfigMap | undefined, name: string): unknown => shown(map?.data?.[name]);

/** An object that the scene has. */
function there<T>(object: T | undefined): T {
  if (object === undefined) throw new Error('an object of the scene is missing');
  return object;
}

/** A ConfigMap: one, the same again, and one that is not valid. */
export function create({ cluster, at }: Scene): void {
  const pear = { ...ConfigMap, metadata: { ...at('pear'), labels: { fruit: 'pear' } }, data: { color: 'green' } };
  const created = cluster.create(pear);
  log.info('created', { color: value(created, 'color'), stored: created.metadata.uid !== undefined });
  refuse('again', () => cluster.create(pear));
  refuse('wrong', () => cluster.create(configMap(at('Wrong'))));
  log.info('read', { color: value(cluster.get(ConfigMap, at('pear')), 'color') });
}

/** Replaces: a stale version, then the current one; dry; without a version; another kind. */
export function update({ cluster, at }: Scene): void {
  const green = (map: ConfigMap) => cluster.update({ ...map, data: { ...map.data, color: 'green' } });
  const kept = there(cluster.get(ConfigMap, at('apple')));
  cluster.patch(ConfigMap, at('apple'), { data: { size: '2' } });
  let updated: ConfigMap;
  try {
    updated = green(kept);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'conflict') throw error;
    refused('stale', error);
    updated = green(there(cluster.get(ConfigMap, at('apple'))));
  }
  log.info('updated', { color: value(updated, 'color'), size: value(updated, 'size') });

  const dry = cluster.update({ ...updated, data: { ...updated.data, color: 'blue' } }, { dryRun: true });
  log.info('dry', { answered: value(dry, 'color'), stored: value(cluster.get(ConfigMap, at('apple')), 'color') });

  const brown: ConfigMap = { ...ConfigMap, metadata: { ...at('apple'), labels: { set: 'fruit' } }, data: { color: 'brown' } };
  const replaced = cluster.update(brown);
  log.info('replaced', { color: value(replaced, 'color'), size: value(replaced, 'size') });

  const web = there(cluster.get(Deployment, at('web'), { live: true }));
  const { spec } = cluster.update({ ...web, spec: { ...web.spec, replicas: 3 } });
  log.info('scaled', { replicas: spec.replicas, grace: shown(spec.template.spec.terminationGracePeriodSeconds) });
}

/** Each type of patch; dry; of what is absent. */
export function patch({ cluster, at }: Scene): void {
  const json = cluster.patch(ConfigMap, at('apple'), [
    { op: 'test', path: '/data/color', value: 'red' },
    { op: 'add', path: '/data/shape', value: 'round' },
  ]);
  log.info('json', { color: value(json, 'color'), shape: value(json, 'shape') });
  const merge = cluster.patch(ConfigMap, at('apple'), { data: { color: null, size: '3' } });
  log.info('merge', { color: value(merge, 'color'), size: value(merge, 'size') });

  const image = { spec: { template: { spec: { containers: [{ name: 'app', image: 'app:2' }] } } } };
  const { containers } = cluster.patch(Deployment, at('web'), image, { type: 'strategic-merge' }).spec.template.spec;
  log.info('strategic', { first: shown(containers[0]?.image), second: shown(containers[1]?.image) });

  const larger = { data: { size: '4' } };
  const dry = cluster.patch(ConfigMap, at('apple'), larger, { dryRun: true });
  log.info('dry', { answered: value(dry, 'size'), stored: value(cluster.get(ConfigMap, at('apple')), 'size') });
  refuse('absent', () => cluster.patch(ConfigMap, at('nothing'), larger));
}

/** Server-side apply: a new object, one field less, another's fields with and without force, dry. */
export function apply({ cluster, primary, at }: Scene): void {
  const fig = (data: Record<string, string>): ConfigMap => ({
    ...ConfigMap,
    metadata: { ...at('fig'), ownerReferences: [controllerReference(primary)] },
    data,
  });
  const applied = cluster.apply(fig({ color: 'purple', size: '1' }));
  log.info('applied', { color: value(applied, 'color'), size: value(applied, 'size'), owner: shown(controllerOf(applied)?.name) });
  const dropped = cluster.apply(fig({ color: 'purple' }));
  log.info('dropped', { color: value(dropped, 'color'), size: value(dropped, 'size') });

  const apple = configMap(at('apple'), { color: 'blue' });
  refuse('theirs', () => cluster.apply(apple));
  log.info('taken', { color: value(cluster.apply(apple, { force: true }), 'color') });
  const dry = cluster.apply(fig({ color: 'white' }), { dryRun: true });
  log.info('dry', { answered: value(dry, 'color'), stored: value(cluster.get(ConfigMap, at('fig')), 'color') });
}

/** The subresource status: patched and replaced. */
export function status({ cluster, at }: Scene): void {
  const counts = { status: { replicas: 2, readyReplicas: 1 } };
  const patched = cluster.patch(Deployment, at('web'), counts, { subresource: 'status' });
  log.info('patched', { ready: shown(patched.status?.readyReplicas) });
  const web = there(cluster.get(Deployment, at('web'), { live: true }));
  const updated = cluster.updateStatus({ ...web, status: { ...web.status, readyReplicas: 2 }, spec: { ...web.spec, replicas: 9 } });
  log.info('updated', { ready: shown(updated.status?.readyReplicas), replicas: updated.spec.replicas });
}

/** Deletes: with preconditions that fail and that hold, what is gone, dry, at once. */
export function remove({ cluster, at }: Scene): void {
  refuse('uid', () => cluster.delete(ConfigMap, at('apple'), { uid: 'another' }));
  refuse('version', () => cluster.delete(ConfigMap, at('banana'), { resourceVersion: '1' }));

  const { uid, resourceVersion } = there(cluster.get(ConfigMap, at('apple'))).metadata;
  const deleted = cluster.delete(ConfigMap, at('apple'), { uid, resourceVersion });
  const again = cluster.delete(ConfigMap, at('apple'));
  log.info('deleted', { deleted, again, gone: cluster.get(ConfigMap, at('apple')) === undefined });

  const dry = cluster.delete(ConfigMap, at('banana'), { dryRun: true });
  log.info('dry', { deleted: dry, there: cluster.get(ConfigMap, at('banana')) !== undefined });
  log.info('at once', { deleted: cluster.delete(ConfigMap, at('cherry'), { propagation: 'background', gracePeriodSeconds: 0 }) });
}

/** Ensures objects in every form that a server may keep otherwise. */
export function ensure({ cluster, primary, namespace }: Scene): void {
  const objects = JSON.parse(primary.data?.objects ?? '[]') as KubernetesObject[];
  for (const { metadata, ...object } of objects) {
    const { effect } = cluster.ensure({ ...object, metadata: { ...metadata, namespace } });
    log.info('ensured', { kind: object.kind, name: metadata.name, effect });
  }
}

/** Deletes what a selector names. */
export function collection({ cluster, namespace }: Scene): void {
  cluster.deleteCollection(ConfigMap, { namespace, labelSelector: 'color=red' });
  log.info('left', { names: named(cluster.listAll(ConfigMap, { namespace, labelSelector: 'set=fruit', live: true })) });
}

/** One of each operation at once. */
export function batch({ cluster, primary, namespace, at }: Scene): void {
  const apple = there(cluster.get(ConfigMap, at('apple')));
  const results = cluster.batch([
    operation.get(ConfigMap, primary),
    operation.get(ConfigMap, at('nothing')),
    operation.create(configMap(at('pear'), { color: 'green' })),
    operation.create(configMap(at('banana'))),
    operation.update({ ...apple, data: { ...apple.data, size: '7' } }),
    operation.patch(ConfigMap, at('banana'), { data: { size: '9' } }),
    operation.apply(configMap(at('fig'), { color: 'purple' })),
    operation.delete(ConfigMap, at('cherry')),
    operation.delete(ConfigMap, at('nothing')),
    operation.list(ConfigMap, { namespace, fieldSelector: 'metadata.name=banana' }),
  ]);
  results.forEach(answered);
}

/** Logs the result of one operation of a batch. */
export function answered(result: Result<ConfigMap | { items: ConfigMap[] } | undefined>): void {
  if (result.status === 'rejected') return refused('refused', result.reason);
  const came = result.value;
  if (came === undefined) log.info('nothing');
  else if ('items' in came) log.info('page', { names: named(came.items) });
  else log.info('object', { name: came.metadata.name, color: value(came, 'color'), size: value(came, 'size') });
}

/** Text that must be neither escaped once too often nor once too little. */
export function text({ cluster, at }: Scene): void {
  const text = 'żółć 🍐 "quoted" \\ back\tslash\u007f </end>\n';
  cluster.create(configMap(at('text'), { text }));
  const stored = cluster.get(ConfigMap, at('text'), { live: true })?.data?.text;
  log.info('text', { same: stored === text, text: shown(stored) });
}

/** An object of 300 KB. */
export function large({ cluster, at }: Scene): void {
  cluster.create(configMap(at('large'), { text: '0123456789'.repeat(30_000) }));
  log.info('large', { length: shown(cluster.get(ConfigMap, at('large'))?.data?.text?.length) });
}
