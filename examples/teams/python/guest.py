"""Keeps a namespace in each cluster for each Team of the hub, with a quota, and with a RoleBinding for each member."""

from collections.abc import Iterable
from datetime import timedelta

from windlass import (
    FLEET_CLUSTER,
    Cluster,
    ClusterInfo,
    Description,
    Enqueue,
    Key,
    Kind,
    Mapper,
    NotReady,
    Object,
    Reconciler,
    Request,
    Watch,
    fleet,
    is_deleting,
    key_of,
    kind_of,
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
            raise not_the_teams(present)
        return
    if present and is_deleting(present):
        return  # what ends is gone at an event
    if team is None or is_deleting(team):
        if present:
            cluster.delete(NAMESPACE, key)
        return
    if FINALIZER not in team["metadata"].get("finalizers", []):
        return  # once it is there, this is asked again
    # Those who leave come first: nothing that fails below keeps their rights.
    for name in names(cluster, ROLE_BINDING, key) - set(team["spec"]["members"]):
        cluster.delete(ROLE_BINDING, Key(key.name, name))
    taken: Object | None = None
    for wanted in objects_of(team):
        present = cluster.get(kind_of(wanted), key_of(wanted))
        if present and team_of(present) != key.name:
            taken = present
        else:
            cluster.ensure(wanted)
    if taken:
        raise not_the_teams(taken)


def not_the_teams(present: Object) -> NotReady:
    """It is looked at again, as what has no label of the guest makes no events."""
    return NotReady(f"{present['kind']} {key_of(present)} is there and not the team's", timedelta(minutes=1))


def names(cluster: Cluster, kind: str, key: Key) -> set[str]:
    """The names of the team's objects. A list with the labels of the watch is of its cache, while a `get` of what is absent is a call."""
    namespace = None if kind == NAMESPACE else key.name
    objects = cluster.list_all(kind, namespace=namespace, labels=LABEL)
    return {object["metadata"]["name"] for object in objects if team_of(object) == key.name}


def objects_of(team: Object) -> list[Object]:
    name, spec = team["metadata"]["name"], team["spec"]
    quota = labelled(RESOURCE_QUOTA, Key(name, "team"), name)
    quota["spec"] = {"hard": {"requests.cpu": str(spec["cpus"])}}
    objects = [labelled(NAMESPACE, Key(None, name), name), quota]
    for member in spec["members"]:
        binding = labelled(ROLE_BINDING, Key(name, member), name)
        binding["roleRef"] = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"}
        binding["subjects"] = [{"apiGroup": RBAC, "kind": "User", "name": member}]
        objects.append(binding)
    return objects


def labelled(kind: str, key: Key, team: str) -> Object:
    wanted = new_object(kind, key)
    wanted["metadata"]["labels"] = {LABEL: team}
    return wanted


def report(hub: Cluster, team: Object) -> None:
    key, clusters, deleting = key_of(team), others(), is_deleting(team)
    there: list[str] = []
    waiting: list[str] = []
    for each in clusters:
        # A cluster that does not answer may have one.
        done = False
        if each.ready:
            cluster = fleet.open(each.name)
            has = key.name in names(cluster, NAMESPACE, key)
            there += [each.name] if has else []
            done = not has if deleting else has and has_all(cluster, team)
        waiting += [] if done else [each.name]
    if deleting and not waiting:
        hub.remove_finalizer(team, FINALIZER)
        return
    if not deleting:
        hub.ensure_finalizer(team, FINALIZER)
    reason = "Deleting" if deleting else "Waiting" if waiting else "Done"
    set_condition(team, "Ready", reason == "Done", reason, f"waits for {', '.join(waiting)}" if waiting else "")
    hub.set_status(TEAM, key, team["status"] | {"clusters": there})


def has_all(cluster: Cluster, team: Object) -> bool:
    key = key_of(team)
    return names(cluster, RESOURCE_QUOTA, key) >= {"team"} and names(cluster, ROLE_BINDING, key) == set(team["spec"]["members"])
