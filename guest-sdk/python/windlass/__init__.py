"""Write a Windlass guest in Python: one class, plain dictionaries.

A guest is a WebAssembly component. The host watches what :meth:`Reconciler.describe` asks for, in every cluster of the
fleet, and calls :meth:`Reconciler.reconcile` with a request and a :class:`Cluster`: the API of the request's own cluster,
within the grants of the operator. ::

    import windlass

    class Copier(windlass.Reconciler):
        def describe(self):
            return windlass.Description(
                "copies ConfigMaps",
                watches=[windlass.Watch("v1/ConfigMap", labels="copy=yes")],
            )

        def reconcile(self, request, cluster):
            original = cluster.get("v1/ConfigMap", request.key)
            if original is None:
                return  # deleted: the garbage collector takes the copy
            copy = windlass.new_object("v1/ConfigMap", request.key.sibling(f"{request.name}-copy"))
            windlass.set_controller(copy, original)
            copy["data"] = original.get("data", {})
            cluster.apply(copy, force=True)

Whatever ``reconcile`` raises is retried with growing delay; :class:`Terminal` waits for the next event instead.
In unit tests :class:`windlass.testing.Fleet` or :class:`windlass.testing.Script` stands for the host.

Import modules at the top of a file: the component contains only modules that are imported during the build.
"""

from . import fleet, http, log, operations
from .cluster import Cluster
from .conditions import condition, set_condition
from .dependents import Dependents
from .description import Change, Clusters, Description, Enqueue, Index, Watch
from .errors import (
    AlreadyExists,
    ApiCode,
    ApiError,
    Cancelled,
    ClusterGone,
    Conflict,
    Denied,
    Expired,
    Forbidden,
    Invalid,
    LimitExceeded,
    NotFound,
    NotReady,
    OtherError,
    Retry,
    Terminal,
    Throttled,
    Timeout,
    Unauthorized,
    Unavailable,
    UnknownKind,
)
from .finalizers import has_finalizer
from .fleet import ClusterInfo
from .host import config, now, timestamp
from .objects import (
    FLEET_CLUSTER,
    Key,
    Kind,
    Object,
    controller_of,
    is_deleting,
    key_of,
    kind_of,
    new_object,
    owner_reference,
    set_controller,
    set_owner,
)
from .operations import Effect, Operation, Page, Written
from .ready import readiness
from .reconciler import DONE, Action, Mapper, Reconciler, Request, requeue_after

__all__ = [
    "DONE",
    "FLEET_CLUSTER",
    "Action",
    "AlreadyExists",
    "ApiCode",
    "ApiError",
    "Cancelled",
    "Change",
    "Cluster",
    "ClusterGone",
    "ClusterInfo",
    "Clusters",
    "Conflict",
    "Denied",
    "Dependents",
    "Description",
    "Effect",
    "Enqueue",
    "Expired",
    "Forbidden",
    "Index",
    "Invalid",
    "Key",
    "Kind",
    "LimitExceeded",
    "Mapper",
    "NotFound",
    "NotReady",
    "Object",
    "Operation",
    "OtherError",
    "Page",
    "Reconciler",
    "Request",
    "Retry",
    "Terminal",
    "Throttled",
    "Timeout",
    "Unauthorized",
    "Unavailable",
    "UnknownKind",
    "Watch",
    "Written",
    "condition",
    "config",
    "controller_of",
    "fleet",
    "has_finalizer",
    "http",
    "is_deleting",
    "key_of",
    "kind_of",
    "log",
    "new_object",
    "now",
    "operations",
    "owner_reference",
    "readiness",
    "requeue_after",
    "set_condition",
    "set_controller",
    "set_owner",
    "timestamp",
]
