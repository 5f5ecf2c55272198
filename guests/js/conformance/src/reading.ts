/** Cases about reads. Entry points: a function for each. */

import { kind, log } from 'windlass-sdk';
import { ConfigMap, Deployment, type Scene, named, shown } from './scene';

/** One object: cached and live, whole and in parts, there and not. */
export function read({ cluster, namespace, at }: Scene): void {
  const live = true;
  const color = (map?: ConfigMap) => shown(map?.data?.color);
  log.info('cluster', { name: cluster.name });
  log.info('color', { cached: color(cluster.get(ConfigMap, at('apple'))), live: color(cluster.get(ConfigMap, at('apple'), { live })) });

  for (const [message, options] of [
    ['cached metadata', { metadataOnly: true }],
    ['live metadata', { metadataOnly: true, live }],
  ] as const) {
    const apple = cluster.get(ConfigMap, at('apple'), options);
    log.info(message, { fruit: shown(apple?.metadata.labels?.fruit), color: color(apple) });
  }

  const scale = cluster.get(Deployment, at('web'), { subresource: 'scale' });
  log.info('scale', { kind: shown(scale?.kind), replicas: shown(scale?.spec.replicas) });

  const absent = (options: { live?: boolean }) => cluster.get(ConfigMap, at('nothing'), options) === undefined;
  log.info('absent', { cached: absent({}), live: absent({ live }) });

  const around = cluster.get(kind('v1', 'Namespace'), { name: namespace }, { live });
  log.info('namespace', { phase: shown(around?.status?.phase) });
}

/** Many objects: by label, index and field, by the page, cached and live. */
export function list({ cluster, namespace }: Scene): void {
  const fruit = { namespace, labelSelector: 'set=fruit' };
  log.info('by label', { names: named(cluster.listAll(ConfigMap, fruit)) });
  log.info('by index', { names: named(cluster.listAll(ConfigMap, { namespace, index: ['color', 'red'] })) });
  log.info('by field', { names: named(cluster.listAll(ConfigMap, { namespace, fieldSelector: 'metadata.name=banana' })) });

  let continueToken: string | undefined;
  for (const message of ['first page', 'second page']) {
    const page = cluster.list(ConfigMap, { ...fruit, limit: 2, continueToken });
    ({ continueToken } = page);
    log.info(message, { names: named(page.items), more: continueToken !== undefined, versioned: page.resourceVersion !== '' });
  }

  log.info('page by page', { names: named(cluster.listAll(ConfigMap, { ...fruit, limit: 2, live: true })) });
  const maps = [...cluster.listAll(ConfigMap, { ...fruit, live: true, metadataOnly: true })];
  log.info('metadata', { names: named(maps), with_data: maps.filter(({ data }) => data !== undefined).length });
  log.info('everywhere', { names: named(cluster.listAll(ConfigMap, { labelSelector: `of=${namespace}`, live: true })) });
}

/** So many calls that every garbage collector runs. */
export function many({ cluster, at }: Scene): void {
  let read = 0;
  for (let call = 0; call < 3000; call++) if (cluster.get(ConfigMap, at('apple'))) read++;
  log.info('many', { read });
}
