"""Keeps the hub's ConfigMaps that are labelled in all other clusters, or in those that they select."""

from collections.abc import Iterable

from windlass import (
    FLEET_CLUSTER,
    Action,
    Cluster,
    Description,
    Enqueue,
    Kind,
    Mapper,
    Object,
    Reconciler,
    Request,
    Watch,
    fleet,
    key_of,
)

CONFIG_MAP = "v1/ConfigMap"
# The label of originals, in the hub.
SPREAD = "hub.windlass.dev/spread"
# The annotation of originals with the labels of their clusters, as `kubectl -l` has them. Without it they are for all.
CLUSTERS = "hub.windlass.dev/clusters"
# The label of copies. Objects without it are never changed.
COPY = "hub.windlass.dev/copy"


class Guest(Reconciler, Mapper):
    def describe(self) -> Description:
        watches = [
            Watch(CONFIG_MAP, labels=COPY, clusters="provider"),
            Watch(CONFIG_MAP, Enqueue.MAPPED, labels=SPREAD, clusters="local"),
            Watch(FLEET_CLUSTER, Enqueue.MAPPED, changes=["labels"]),
        ]
        return Description("keeps ConfigMaps of the hub in all clusters", watches=watches)

    def reconcile(self, request: Request, cluster: Cluster) -> Action | None:
        original = fleet.local().get(CONFIG_MAP, request.key)
        copy = cluster.get(CONFIG_MAP, request.key)
        if original is None or not has(original, SPREAD) or not is_for(original, cluster.name):
            if copy is not None and has(copy, COPY):
                cluster.delete(CONFIG_MAP, request.key)
            return None
        if copy is not None and not has(copy, COPY):
            raise RuntimeError(f"{request.key} is there and no copy")

        def change(wanted: Object) -> None:
            wanted["metadata"].setdefault("labels", {})[COPY] = "yes"
            wanted["data"] = original.get("data", {})

        cluster.create_or_update(CONFIG_MAP, request.key, change)
        return None

    def map(self, cluster: Cluster, kind: Kind, objects: list[Object]) -> Iterable[Request]:
        # The objects are the hub's: an original asks for a copy in each cluster, a cluster for a copy of each original.
        object = objects[-1]
        if kind == FLEET_CLUSTER:
            originals = cluster.list_all(CONFIG_MAP, labels=SPREAD)
            return [Request(object["spec"]["name"], key_of(original)) for original in originals]
        return [Request(to.name, key_of(object)) for to in fleet.clusters() if to.name]


def is_for(original: Object, cluster: str) -> bool:
    selector = original["metadata"].get("annotations", {}).get(CLUSTERS)
    return any(to.name == cluster for to in fleet.clusters(selector))


def has(object: Object, label: str) -> bool:
    return label in object["metadata"].get("labels", {})
