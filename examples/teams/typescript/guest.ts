/** Keeps a namespace in each cluster for each Team of the hub, with a quota, and with a RoleBinding for each member. */

import {
  FleetCluster,
  type Cluster,
  type KubernetesObject,
  type Request,
  defineMapper,
  defineReconciler,
  isDeleting,
  keyOf,
  kind,
  setCondition,
} from 'windlass-sdk';
import * as fleet from 'windlass-sdk/fleet';

interface Team extends KubernetesObject {
  spec: { members: string[]; cpus: number };
  status?: { clusters?: string[] };
}
const Team = kind<Team>('example.windlass.dev/v1', 'Team');
const Namespace = kind('v1', 'Namespace');
const ResourceQuota = kind('v1', 'ResourceQuota');
const RoleBinding = kind('rbac.authorization.k8s.io/v1', 'RoleBinding');

/** The label of all objects of a team, with its name. Others are never changed. */
const TEAM = 'example.windlass.dev/team';
const FINALIZER = 'example.windlass.dev/namespaces';

const teamOf = (object: KubernetesObject) => object.metadata.labels?.[TEAM];

export const reconciler = defineReconciler({
  describe: () => ({
    title: 'keeps namespaces for teams',
    watches: [
      { kind: Team, clusters: 'local' },
      { kind: Team, clusters: 'local', enqueue: 'mapped' },
      { kind: FleetCluster, enqueue: 'mapped' },
      ...[Namespace, ResourceQuota, RoleBinding].map(
        (kind) => ({ kind, clusters: 'provider', labelSelector: TEAM, enqueue: 'mapped' }) as const,
      ),
    ],
  }),

  /** A request of the hub is about the Team itself, one of another cluster about its namespace there. */
  reconcile({ key }, cluster) {
    const team = fleet.local().get(Team, key);
    if (cluster.name !== '') return keep(cluster, key.name, team);
    if (team) return report(cluster, team);
  },
});

export const mapper = defineMapper((cluster, kind, objects) => {
  const object = objects.at(-1)!;
  if (kind.kind === FleetCluster.kind) return [...cluster.listAll(Team)].flatMap((team) => both(object.spec.name, team.metadata.name));
  if (kind.kind === Team.kind) return others().map(({ name }) => ({ cluster: name, key: keyOf(object) }));
  return objects.flatMap((object) => both(cluster.name, teamOf(object) ?? ''));
});

/** A team in a cluster and in the hub. */
const both = (cluster: string, name: string): Request[] => ['', cluster].map((cluster) => ({ cluster, key: { name } }));

const others = () => fleet.clusters().filter(({ name }) => name !== '');

function keep(cluster: Cluster, name: string, team?: Team) {
  const present = cluster.get(Namespace, { name });
  if (present && teamOf(present) !== name) {
    if (team) throw new Error(`Namespace ${name} is there and not the team's`);
    return;
  }
  // What ends is gone at an event.
  if (present && isDeleting(present)) return;
  if (!team || isDeleting(team)) {
    if (present) cluster.delete(Namespace, { name });
    return;
  }
  const labels = { [TEAM]: name };
  cluster.ensure({ ...Namespace, metadata: { name, labels } });
  cluster.ensure({
    ...ResourceQuota,
    metadata: { namespace: name, name: 'team', labels },
    spec: { hard: { 'requests.cpu': `${team.spec.cpus}` } },
  });
  for (const member of team.spec.members) {
    cluster.ensure({
      ...RoleBinding,
      metadata: { namespace: name, name: member, labels },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'edit' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: member }],
    });
  }
  for (const binding of cluster.listAll(RoleBinding, { namespace: name, labelSelector: TEAM })) {
    if (!team.spec.members.includes(binding.metadata.name)) cluster.delete(RoleBinding, keyOf(binding));
  }
}

function report(hub: Cluster, team: Team) {
  const key = keyOf(team);
  const clusters = others();
  const has = ({ name }: { name: string }) => {
    const namespace = fleet.open(name).get(Namespace, key);
    return namespace !== undefined && teamOf(namespace) === key.name;
  };
  const deleting = isDeleting(team);
  const there = clusters.filter((cluster) => cluster.ready && has(cluster)).map(({ name }) => name);
  // A cluster that does not answer may have one.
  const waiting = clusters.filter(({ name, ready }) => !ready || there.includes(name) === deleting).map(({ name }) => name);
  if (deleting && waiting.length === 0) {
    hub.removeFinalizer(team, FINALIZER);
    return;
  }
  if (!deleting) hub.ensureFinalizer(team, FINALIZER);
  const reason = deleting ? 'Deleting' : waiting.length > 0 ? 'Waiting' : 'Done';
  const message = waiting.length > 0 ? `waits for ${waiting.join(', ')}` : '';
  setCondition(team, { type: 'Ready', status: reason === 'Done', reason, message });
  hub.setStatus(Team, key, { ...team.status, clusters: there });
}
