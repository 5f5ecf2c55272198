"""A guest of the contract 0.1.0 in Python, on bindings of the pinned WIT and nothing else; what it does is told in ../README.md.

``wit_world`` exists inside the component alone.
"""

import json

from componentize_py_types import Err, Ok
from wit_world.exports.reconciler import (
    ClusterScope,
    Description,
    Enqueue_ControllerOwner,
    Enqueue_Mapped,
    Index,
    Watch,
)
from wit_world.imports import clock, config, fleet, log
from wit_world.imports.client import (
    ApplyOptions,
    Cluster,
    DeleteOptions,
    Event,
    EventType,
    GetOptions,
    ListOptions,
    Operation_Get,
    PatchType,
    Projection,
    ReadMode,
    Reply_Object,
    WriteOptions,
)
from wit_world.imports.types import (
    Action,
    Action_RequeueAfterMs,
    ApiCode,
    ApiError,
    Failure_Retry,
    Failure_Terminal,
    GroupVersionKind,
    ObjectKey,
    Request,
)

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SECRET = GroupVersionKind("", "v1", "Secret")
WRITE = WriteOptions(None, False)


class Reconciler:
    """The export ``reconciler``."""

    def describe(self) -> Description:
        """Asks for ConfigMaps, whose colors are indexed, and for Secrets, which are mapped."""
        scope = ClusterScope.AS_CONFIGURED
        return Description(
            "a guest of the contract 0.1.0",
            CONFIG_MAP,
            [
                Watch(CONFIG_MAP, Enqueue_ControllerOwner(), scope, None, None, [], False, []),
                Watch(SECRET, Enqueue_Mapped(), scope, "contract.windlass.dev/ask", None, [], True, []),
            ],
            [Index(CONFIG_MAP, "color", "data.color", None, [])],
            [],
        )

    def reconcile(self, request: Request, cluster: Cluster) -> Action:
        """An api-error that is not expected is tried again."""
        with cluster:
            try:
                return _reconcile(request.key, cluster)
            except Err as error:
                if isinstance(error.value, ApiError):
                    raise Err(Failure_Retry(error.value.message)) from None
                raise


class Mapper:
    """The export ``mapper``."""

    def map_objects(self, cluster: Cluster, kind: GroupVersionKind, objects: list[str]) -> list[Request]:
        """Every Secret asks for the same."""
        with cluster:
            if kind != SECRET or not objects:
                raise Err(f"{len(objects)} {kind.kind}")
            return [Request(cluster.name(), ObjectKey("default", "case"))]


def _reconcile(key: ObjectKey, cluster: Cluster) -> Action:
    if cluster.get(CONFIG_MAP, key, GetOptions(ReadMode.CACHED, Projection.FULL, None)) is None:
        raise Err(Failure_Terminal(f"there is no {key.name}"))

    listing = ListOptions(key.namespace, None, None, ("color", "red"), 0, None, ReadMode.CACHED, Projection.FULL)
    red = cluster.list(CONFIG_MAP, listing).items

    made = ObjectKey(key.namespace, f"{key.name}-made")
    try:
        cluster.create(CONFIG_MAP, _config_map(made, json.loads(config.get())), WRITE)
    except Err as error:
        if error.value.code != ApiCode.ALREADY_EXISTS:
            raise
    cluster.patch(CONFIG_MAP, made, PatchType.MERGE, '{"data": {"patched": "yes"}}', WRITE)

    absent = 200
    try:
        cluster.delete(CONFIG_MAP, ObjectKey(key.namespace, "absent"), DeleteOptions(None, None, None, None, False))
    except Err as error:
        if error.value.code != ApiCode.NOT_FOUND:
            raise
        absent = error.value.http_status

    [reply] = cluster.batch([Operation_Get((CONFIG_MAP, made, GetOptions(ReadMode.LIVE, Projection.FULL, None)))])
    match reply:
        case Ok(Reply_Object(text)):
            read = "patched" in text
        case _:
            read = False

    names = [info.name for info in fleet.clusters(None)]
    with fleet.open(names[0]) as opened:
        name = opened.name()

    data = {
        "red": str(len(red)),
        "absent": str(absent),
        "read": str(read).lower(),
        "clusters": " ".join(names),
        "opened": name,
        "now": str(len(clock.now())),
    }
    seen = ObjectKey(key.namespace, f"{key.name}-seen")
    cluster.apply(CONFIG_MAP, _config_map(seen, data), ApplyOptions(None, True, False))
    note = "a guest of the contract 0.1.0 was here"
    cluster.record_event(Event(CONFIG_MAP, key, EventType.NORMAL, "Seen", "Reconcile", note))
    log.write(log.Level.INFO, "seen", [("name", key.name)])
    return Action_RequeueAfterMs(60_000)


def _config_map(key: ObjectKey, data: dict[str, str]) -> str:
    metadata = {"namespace": key.namespace, "name": key.name}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
