"""The conformance reconciler in Python: guests/conformance/README.md says what each case does. Entry point: Conformance."""

from collections.abc import Callable, Iterable

import around
import clusters
import errors
import outcomes
import reads
import servers
import windlass
import writes
from windlass import Change, Cluster, Description, Enqueue, Index, Key, Kind, Object, Request, Watch, log
from words import CONFIG_MAP, Scene, color, names, refused

# The label of a ConfigMap that asks for a case. Its value is the case's name.
CASE = "conformance.windlass.dev/case"
# The label of a Secret that asks for requests.
ASK = "conformance.windlass.dev/ask"
# The annotation of such a Secret: the cluster that is asked for.
FOR = "conformance.windlass.dev/for"

CASES: dict[str, Callable[[Scene], windlass.Action | None]] = {
    "read": reads.read,
    "list": reads.list_all,
    "many": reads.many,
    "create": writes.create,
    "update": writes.update,
    "patch": writes.patch,
    "apply": writes.apply,
    "status": writes.status,
    "delete": writes.delete,
    "ensure": writes.ensure,
    "collection": writes.collection,
    "batch": writes.batch,
    "text": writes.text,
    "large": writes.large,
    "events": around.events,
    "log": around.lines,
    "config": around.config,
    "clock": around.clock,
    "random": around.draws,
    "clusters": clusters.clusters,
    "open": clusters.open,
    "across": clusters.across,
    "http": servers.call,
    "codes": errors.codes,
    "limits": errors.limits,
    "cancelled": errors.cancelled,
    "done": outcomes.done,
    "requeue": outcomes.requeue,
    "requeue-now": outcomes.requeue_now,
    "retry": outcomes.retry,
    "terminal": outcomes.terminal,
    "terminal-cut": outcomes.terminal_cut,
    "retry-api": outcomes.retry_api,
    "terminal-api": outcomes.terminal_api,
    "exception": outcomes.exception,
}


class Conformance(windlass.Reconciler, windlass.Mapper):
    """A case for each part of the contract."""

    def describe(self) -> Description:
        """What it watches, one of each sort."""
        config = windlass.config()
        refusal = config.get("refuse")
        if refusal is not None:
            raise windlass.Terminal(refusal)
        changes: list[Change] = ["labels", "annotations"]

        def options(part: str) -> dict[str, str]:
            return {"later": "yes"} if config.get("later") == part else {}

        return Description(
            "walks through the contract",
            watches=[
                Watch(CONFIG_MAP, clusters="provider", changes=changes),
                Watch("apps/v1/Deployment", Enqueue.CONTROLLER_OWNER, changes=["generation", "status"]),
                Watch("v1/Secret", Enqueue.MAPPED, labels=ASK, metadata_only=True),
                Watch("v1/ServiceAccount", Enqueue.ANY_OWNER),
                Watch("v1/PersistentVolumeClaim", Enqueue.SAME_NAME, fields="metadata.namespace!=kube-system"),
                Watch("v1/Service", Enqueue.by_index("service"), options=options("watch")),
            ],
            indexes=[
                Index(CONFIG_MAP, "color", "data.color"),
                Index(
                    CONFIG_MAP,
                    "service",
                    "data.service",
                    namespace_path="data['service.namespace']",
                    options=options("index"),
                ),
            ],
            options=options("description"),
        )

    def reconcile(self, request: Request, cluster: Cluster) -> windlass.Action | None:
        """Runs the case that the object names."""
        primary = cluster.get(CONFIG_MAP, request.key)
        if primary is None:
            log.info("gone", key=request.key)
            return None
        case = primary["metadata"].get("labels", {}).get(CASE)
        if case is None:
            return None  # objects of the cases
        run = CASES.get(case)
        if run is None:
            raise windlass.Terminal(f'there is no case "{case}"')
        return run(Scene(cluster, request, primary))

    def map(self, cluster: Cluster, kind: Kind, objects: list[Object]) -> Iterable[Request]:
        """Asks for the cluster that the newest object names."""
        newest = objects[-1]
        asked = newest["metadata"].get("annotations", {}).get(FOR)
        if asked is None:
            raise windlass.Retry("no cluster is asked for")
        key: Key = windlass.key_of(newest)
        apple = key.sibling("apple")
        log.info(
            "mapped",
            kind=kind,
            objects=len(objects),
            color=color(cluster.get(CONFIG_MAP, apple)),
            clusters=names(known.name for known in windlass.fleet.clusters()),
        )
        try:
            cluster.get(CONFIG_MAP, apple, live=True)
        except windlass.ApiError as error:
            refused("live", error)
        return [Request(asked, key.sibling("asked"))]
