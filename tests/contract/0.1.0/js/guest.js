// A guest of the contract 0.1.0 in JavaScript, on the contract's functions and nothing else; what it does is told in ../README.md.

import { now } from 'windlass:runtime/clock@0.1.0';
import { get as config } from 'windlass:runtime/config@0.1.0';
import { clusters, open } from 'windlass:runtime/fleet@0.1.0';
import { write as log } from 'windlass:runtime/log@0.1.0';

const core = (kind) => ({ group: '', version: 'v1', kind });
const ConfigMap = core('ConfigMap');

const configMap = ({ namespace, name }, data) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name }, data });

/** Runs a call; an api-error that `expected` does not take ends the reconcile, to be tried again. */
function calling(call, expected = () => false) {
  try {
    return call();
  } catch (error) {
    const told = error.payload;
    if (expected(told)) return told;
    throw { tag: 'retry', val: told.message };
  }
}

const watch = (kind, enqueue, labelSelector) => ({
  kind: core(kind),
  enqueue: { tag: enqueue },
  clusters: 'as-configured',
  labelSelector,
  fieldSelector: undefined,
  changes: [],
  metadataOnly: labelSelector !== undefined,
  options: [],
});

export const reconciler = {
  describe: () => ({
    title: 'a guest of the contract 0.1.0',
    primary: ConfigMap,
    watches: [watch('ConfigMap', 'controller-owner'), watch('Secret', 'mapped', 'contract.windlass.dev/ask')],
    indexes: [{ kind: ConfigMap, name: 'color', path: 'data.color', namespacePath: undefined, options: [] }],
    options: [],
  }),

  reconcile({ key }, cluster) {
    const { namespace, name } = key;
    const reading = { mode: 'cached', projection: 'full', subresource: undefined };
    const found = calling(() => cluster.get(ConfigMap, key, reading));
    if (found == null) throw { tag: 'terminal', val: `there is no ${name}` };

    const listing = {
      namespace,
      labelSelector: undefined,
      fieldSelector: undefined,
      index: ['color', 'red'],
      limit: 0,
      continueToken: undefined,
      mode: 'cached',
      projection: 'full',
    };
    const red = calling(() => cluster.list(ConfigMap, listing)).items.length;

    const made = { namespace, name: `${name}-made` };
    const writing = { subresource: undefined, dryRun: false };
    const object = configMap(made, JSON.parse(config()));
    calling(
      () => cluster.create(ConfigMap, object, writing),
      ({ code }) => code === 'already-exists',
    );
    calling(() => cluster.patch(ConfigMap, made, 'merge', '{"data": {"patched": "yes"}}', writing));

    const deleting = {
      uid: undefined,
      resourceVersion: undefined,
      propagation: undefined,
      gracePeriodSeconds: undefined,
      dryRun: false,
    };
    const refused = calling(
      () => cluster.delete(ConfigMap, { namespace, name: 'absent' }, deleting),
      ({ code }) => code === 'not-found',
    );

    const [reply] = cluster.batch([{ tag: 'get', val: [ConfigMap, made, { ...reading, mode: 'live' }] }]);
    const read = reply.tag === 'ok' && reply.val.tag === 'object' && reply.val.val.includes('patched');

    const names = calling(() => clusters(undefined)).map((info) => info.name);
    const opened = calling(() => open(names[0])).name();

    const data = {
      red: `${red}`,
      absent: `${refused?.httpStatus ?? 200}`,
      read: `${read}`,
      clusters: names.join(' '),
      opened,
      now: `${now().length}`,
    };
    const seen = configMap({ namespace, name: `${name}-seen` }, data);
    calling(() => cluster.apply(ConfigMap, seen, { subresource: undefined, force: true, dryRun: false }));
    cluster.recordEvent({
      kind: ConfigMap,
      key,
      eventType: 'normal',
      reason: 'Seen',
      action: 'Reconcile',
      note: 'a guest of the contract 0.1.0 was here',
    });
    log('info', 'seen', [['name', name]]);
    return { tag: 'requeue-after-ms', val: 60_000 };
  },
};

export const mapper = {
  mapObjects(cluster, kind, objects) {
    if (kind.kind !== 'Secret' || objects.length === 0) throw `${objects.length} ${kind.kind}`;
    return [{ cluster: cluster.name(), key: { namespace: 'default', name: 'case' } }];
  },
};
