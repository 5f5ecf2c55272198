/** Keeps a namespace in each cluster for each Team of the hub, with a quota, and with a RoleBinding for each member. */

import {
  FleetCluster,
  NotReady,
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
    if (team) throw notTheTeams(present);
    return;
  }
  // What ends is gone at an event.
  if (present && isDeleting(present)) return;
  if (!team || isDeleting(team)) {
    if (present) cluster.delete(Namespace, { name });
    return;
  }
  // Once it is there, this is asked again.
  if (!team.metadata.finalizers?.includes(FINALIZER)) return;
  // Those who leave come first: nothing that fails below keeps their rights.
  for (const member of names(cluster, RoleBinding, name)) {
    if (!team.spec.members.includes(member)) cluster.delete(RoleBinding, { namespace: name, name: member });
  }
  let taken: KubernetesObject | undefined;
  for (const wanted of objectsOf(team)) {
    const present = cluster.get(wanted, keyOf(wanted));
    if (present && teamOf(present) !== name) taken = present;
    else cluster.ensure(wanted);
  }
  if (taken) throw notTheTeams(taken);
}

/** It is looked at again, as what has no label of the guest makes no events. */
const notTheTeams = ({ kind, metadata: { namespace, name } }: KubernetesObject) =>
  new NotReady(`${kind} ${namespace ? `${namespace}/` : ''}${name} is there and not the team's`, { minutes: 1 });

/** The names of the team's objects. A list with the labels of the watch is of its cache, while a `get` of what is absent is a call. */
function names(cluster: Cluster, kind: typeof Namespace, team: string) {
  const namespace = kind === Namespace ? undefined : team;
  const objects = [...cluster.listAll(kind, { namespace, labelSelector: TEAM })];
  return objects.filter((object) => teamOf(object) === team).map(({ metadata }) => metadata.name);
}

function objectsOf({ metadata: { name }, spec }: Team) {
  const labels = { [TEAM]: name };
  const quota = {
    ...ResourceQuota,
    metadata: { namespace: name, name: 'team', labels },
    spec: { hard: { 'requests.cpu': `${spec.cpus}` } },
  };
  const bindings = spec.members.map((member) => ({
    ...RoleBinding,
    metadata: { namespace: name, name: member, labels },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'edit' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: member }],
  }));
  return [{ ...Namespace, metadata: { name, labels } }, quota, ...bindings];
}

function report(hub: Cluster, team: Team) {
  const key = keyOf(team);
  const deleting = isDeleting(team);
  const there: string[] = [];
  const waiting: string[] = [];
  for (const { name, ready } of others()) {
    const cluster = ready && fleet.open(name);
    const has = cluster && names(cluster, Namespace, key.name).includes(key.name);
    if (has) there.push(name);
    // A cluster that does not answer may have one.
    const done = cluster && (deleting ? !has : has && hasAll(cluster, team));
    if (!done) waiting.push(name);
  }
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

function hasAll(cluster: Cluster, { metadata: { name }, spec: { members } }: Team) {
  const bound = names(cluster, RoleBinding, name);
  const same = members.every((member) => bound.includes(member)) && bound.every((member) => members.includes(member));
  return same && names(cluster, ResourceQuota, name).includes('team');
}
