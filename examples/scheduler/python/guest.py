"""Places Workloads of the hub on clusters that they select and that have processors left."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from windlass import (
    FLEET_CLUSTER,
    Action,
    Cluster,
    Description,
    Enqueue,
    Invalid,
    Key,
    Kind,
    Mapper,
    Object,
    Reconciler,
    Request,
    Watch,
    condition,
    fleet,
    key_of,
    new_object,
    now,
    requeue_after,
    set_condition,
)

WORKLOAD = "example.windlass.dev/v1/Workload"
DEPLOYMENT = "apps/v1/Deployment"
NAMESPACE = "v1/Namespace"
# The label of the guest's Deployments. Others are never changed.
PLACED = "example.windlass.dev/placed"
# The label of a cluster with the number of its processors.
CPUS = "cpus"
# How long a cluster that is not ready, or not in the fleet, keeps what it has.
PATIENCE = timedelta(minutes=5)


class Guest(Reconciler, Mapper):
    def describe(self) -> Description:
        watches = [
            Watch(WORKLOAD, clusters="local"),
            Watch(WORKLOAD, Enqueue.MAPPED, clusters="local"),
            Watch(FLEET_CLUSTER, Enqueue.MAPPED),
            Watch(DEPLOYMENT, Enqueue.SAME_NAME, labels=PLACED, clusters="provider"),
        ]
        return Description("places workloads on clusters", watches=watches)

    def reconcile(self, request: Request, cluster: Cluster) -> Action | None:
        """A request of the hub decides where a Workload runs, one of another cluster makes it so there."""
        workload = fleet.local().get(WORKLOAD, request.key)
        if request.cluster:
            return run(request, cluster, workload)
        return place(cluster, workload) if workload else None

    def map(self, cluster: Cluster, kind: Kind, objects: list[Object]) -> Iterable[Request]:
        workloads = list(cluster.list_all(WORKLOAD))
        if kind == FLEET_CLUSTER:
            return [Request("", key_of(workload)) for workload in workloads]
        # It starts or ends where it ran or runs, and others that wait may have its room.
        there = [Request(name, key_of(workload)) for workload in objects for name in placement(workload)]
        waiting = [workload for workload in workloads if not is_placed(workload)]
        return there + [Request("", key_of(workload)) for workload in waiting]


def run(request: Request, cluster: Cluster, workload: Object | None) -> None:
    replicas = placement(workload).get(request.cluster, 0) if workload else 0
    present = cluster.get(DEPLOYMENT, request.key)
    if present and PLACED not in present["metadata"].get("labels", {}):
        if replicas:
            raise RuntimeError(f"Deployment {request.key} is there and not the scheduler's")
        return
    if workload and replicas:
        if not present:
            cluster.ensure(new_object(NAMESPACE, Key(None, request.key.namespace or "")))
        cluster.ensure(deployment(workload, replicas))
    elif present:
        cluster.delete(DEPLOYMENT, request.key)


def place(hub: Cluster, workload: Object) -> Action | None:
    spec, before, used = workload["spec"], placement(workload), used_by_others(hub, workload)
    # Read first, so that a cluster that joins meanwhile is not taken for one that is not selected.
    known = {cluster["spec"]["name"] for cluster in hub.list_all(FLEET_CLUSTER)}
    try:
        selected = list(hub.list_all(FLEET_CLUSTER, labels=spec["clusterSelector"]))
    except Invalid as error:
        # What runs stays until the selector can be read.
        return report(hub, workload, workload.get("status", {}).get("clusters", []), "BadSelector", str(error))
    rooms: dict[str, int] = {}
    again: list[timedelta] = []
    for cluster in selected:
        name = cluster["spec"]["name"]
        free = int(cluster["metadata"].get("labels", {}).get(CPUS, 0)) - used[name]
        rooms[name] = max(free, 0) // spec["cpus"]
        if not cluster["status"]["ready"]:
            patience = patience_left((condition(cluster, "Ready") or {})["lastTransitionTime"])
            rooms[name] = min(rooms[name], before.get(name, 0)) if patience else 0
            again += [patience] if rooms[name] else []
    # A cluster that is not in the fleet has left, or no Provider has reported it yet since the start.
    away = {name: away_since(workload, name) for name in before if name not in known and name not in rooms}
    for name, since in away.items():
        if patience := patience_left(since):
            rooms[name] = before[name]
            again.append(patience)
    # What runs stays, as far as it may. The rest goes where most room is.
    runs: Counter[str] = Counter()
    for name in sorted(rooms):
        runs[name] = min(before.get(name, 0), rooms[name], spec["replicas"] - runs.total())
    for name in sorted(rooms, key=lambda name: (runs[name] - rooms[name], name)):
        runs[name] += min(rooms[name] - runs[name], spec["replicas"] - runs.total())
    left = spec["replicas"] - runs.total()
    message = f"{left} of {spec['replicas']} replicas have no cluster" if left else ""
    clusters: list[Object] = [{"name": name, "replicas": runs[name]} for name in sorted(runs) if runs[name]]
    for cluster in clusters:
        if cluster["name"] in away:
            cluster["awaySince"] = away[cluster["name"]]
    report(hub, workload, clusters, "NoRoom" if left else "Done", message)
    return requeue_after(min(again)) if again else None


def report(hub: Cluster, workload: Object, clusters: list[Object], reason: str, message: str) -> None:
    set_condition(workload, "Placed", reason == "Done", reason, message)
    hub.set_status(WORKLOAD, key_of(workload), {**workload["status"], "clusters": clusters})


def placement(workload: Object) -> dict[str, int]:
    clusters = workload.get("status", {}).get("clusters", [])
    return {cluster["name"]: cluster["replicas"] for cluster in clusters}


def is_placed(workload: Object) -> bool:
    return (condition(workload, "Placed") or {}).get("status") == "True"


def used_by_others(hub: Cluster, workload: Object) -> Counter[str]:
    used: Counter[str] = Counter()
    for other in hub.list_all(WORKLOAD):
        if key_of(other) != key_of(workload):
            for name, replicas in placement(other).items():
                used[name] += replicas * other["spec"]["cpus"]
    return used


def away_since(workload: Object, name: str) -> str:
    """When the cluster was first found to be away: now, if the status does not say."""
    share = next(share for share in workload["status"]["clusters"] if share["name"] == name)
    return share.get("awaySince") or now().isoformat()


def patience_left(since: str) -> timedelta:
    return max(datetime.fromisoformat(since) + PATIENCE - now(), timedelta())


def deployment(workload: Object, replicas: int) -> Object:
    key, spec = key_of(workload), workload["spec"]
    labels = {"app": key.name}
    container = {"name": "app", "image": spec["image"], "resources": {"requests": {"cpu": str(spec["cpus"])}}}
    wanted = new_object(DEPLOYMENT, key)
    wanted["metadata"]["labels"] = {PLACED: "yes"}
    wanted["spec"] = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    return wanted
