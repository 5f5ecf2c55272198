"""Keeps a namespace in each cluster for each Team of the hub, with a quota, and with a RoleBinding for each member."""

from collections.abc import Iterable

from windlass import (
    FLEET_CLUSTER,
    Cluster,
    ClusterInfo,
    Description,
    Enqueue,
    Key,
    Kind,
    Mapper,
    Object,
    Reconciler,
    Request,
    Watch,
    fleet,
    is_deleting,
    key_of,
    new_object,
    set_condition,
)

TEAM = Kind.of("example.windlass.dev/v1/Team")
NAMESPACE = "v1/Namespace"
RESOURCE_QUOTA = "v1/ResourceQuota"
ROLE_BINDING = "rbac.authorization.k8s.io/v1/RoleBinding"
RBAC = "rbac.authorization.k8s.io"

# The label of all objects of a team, with its name. Others are never changed.
LABEL = "example.windlass.dev/team"
FINALIZER = "example.windlass.dev/namespaces"


class Guest(Reconciler, Mapper):
    def describe(self) -> Description:
        watches = [
            Watch(TEAM, clusters="local"),
            Watch(TEAM, Enqueue.MAPPED, clusters="local"),
            Watch(FLEET_CLUSTER, Enqueue.MAPPED),
        ]
        for kind in [NAMESPACE, RESOURCE_QUOTA, ROLE_BINDING]:
            watches.append(Watch(kind, Enqueue.MAPPED, labels=LABEL, clusters="provider"))
        return Description("keeps namespaces for teams", watches=watches)

    def reconcile(self, request: Request, cluster: Cluster) -> None:
        """A request of the hub is about the Team itself, one of another cluster about its namespace there."""
        team = fleet.local().get(TEAM, request.key)
        if request.cluster:
            keep(cluster, request.key, team)
        elif team:
            report(cluster, team)

    def map(self, cluster: Cluster, kind: Kind, objects: list[Object]) -> Iterable[Request]:
        if kind == TEAM:
            return [Request(other.name, key_of(objects[-1])) for other in others()]
        if kind == FLEET_CLUSTER:
            name = objects[-1]["spec"]["name"]
            return [request for team in cluster.list_all(TEAM) for request in both(name, key_of(team))]
        return [request for object in objects for request in both(cluster.name, Key(None, team_of(object) or ""))]


def both(cluster: str, key: Key) -> list[Request]:
    """A team in a cluster and in the hub."""
    return [Request("", key), Request(cluster, key)]


def others() -> list[ClusterInfo]:
    return [cluster for cluster in fleet.clusters() if cluster.name]


def team_of(object: Object) -> str | None:
    label: str | None = object["metadata"].get("labels", {}).get(LABEL)
    return label


def keep(cluster: Cluster, key: Key, team: Object | None) -> None:
    present = cluster.get(NAMESPACE, key)
    if present and team_of(present) != key.name:
        if team:
            raise RuntimeError(f"Namespace {key.name} is there and not the team's")
        return
    if present and is_deleting(present):
        return  # what ends is gone at an event
    if team is None or is_deleting(team):
        if present:
            cluster.delete(NAMESPACE, key)
        return
    cluster.ensure(labelled(NAMESPACE, key, key.name))
    quota = labelled(RESOURCE_QUOTA, Key(key.name, "team"), key.name)
    cluster.ensure(quota | {"spec": {"hard": {"requests.cpu": str(team["spec"]["cpus"])}}})
    members = team["spec"]["members"]
    for member in members:
        binding = labelled(ROLE_BINDING, Key(key.name, member), key.name)
        binding["roleRef"] = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"}
        binding["subjects"] = [{"apiGroup": RBAC, "kind": "User", "name": member}]
        cluster.ensure(binding)
    for binding in cluster.list_all(ROLE_BINDING, namespace=key.name, labels=LABEL):
        if binding["metadata"]["name"] not in members:
            cluster.delete(ROLE_BINDING, key_of(binding))


def labelled(kind: str, key: Key, team: str) -> Object:
    wanted = new_object(kind, key)
    wanted["metadata"]["labels"] = {LABEL: team}
    return wanted


def report(hub: Cluster, team: Object) -> None:
    key, clusters, deleting = key_of(team), others(), is_deleting(team)
    there = [cluster.name for cluster in clusters if cluster.ready and has_namespace(cluster, key)]
    # A cluster that does not answer may have one.
    waiting = [each.name for each in clusters if not each.ready or (each.name in there) == deleting]
    if deleting and not waiting:
        hub.remove_finalizer(team, FINALIZER)
        return
    if not deleting:
        hub.ensure_finalizer(team, FINALIZER)
    reason = "Deleting" if deleting else "Waiting" if waiting else "Done"
    set_condition(team, "Ready", reason == "Done", reason, f"waits for {', '.join(waiting)}" if waiting else "")
    hub.set_status(TEAM, key, team["status"] | {"clusters": there})


def has_namespace(cluster: ClusterInfo, key: Key) -> bool:
    namespace = fleet.open(cluster.name).get(NAMESPACE, key)
    return namespace is not None and team_of(namespace) == key.name
