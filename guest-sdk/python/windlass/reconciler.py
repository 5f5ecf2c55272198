"""The classes that a guest derives from. Entry points: :class:`Reconciler` and :class:`Mapper`."""

from __future__ import annotations

import string
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from . import checks, log
from .cluster import Cluster
from .description import Description
from .errors import NotReady
from .objects import Key, Kind, Object

_PLAIN = (string.ascii_letters + string.digits + "-._~").encode()
"""The bytes that are not escaped in a URL; all others in a cluster's name are percent-encoded."""


@dataclass(frozen=True, slots=True)
class Request:
    """Names an object to reconcile. Contains neither the object nor the event that caused it."""

    cluster: str
    """``""`` is the local cluster."""
    key: Key
    """The object to reconcile."""

    def __post_init__(self) -> None:
        checks.fields_of(self, {"cluster": checks.text, "key": lambda _, value: Key.of(value)})

    @property
    def namespace(self) -> str | None:
        """The object's namespace; ``None`` for cluster-scoped objects."""
        return self.key.namespace

    @property
    def name(self) -> str:
        """The object's name."""
        return self.key.name

    def __str__(self) -> str:
        cluster = "".join(chr(each) if each in _PLAIN else f"%{each:02X}" for each in self.cluster.encode())
        return f"cluster://{cluster}/{self.namespace or ''}/{self.name}"


@dataclass(frozen=True, slots=True)
class Action:
    """The result of a successful reconcile: :data:`DONE`, or the result of :func:`requeue_after`."""

    requeue_after_ms: int | None = None
    """``None``: nothing more to do until an event."""

    def __post_init__(self) -> None:
        checks.fields_of(self, {"requeue_after_ms": checks.optional(checks.whole)})


DONE = Action()
"""Nothing more to do until an event. Returning nothing means the same."""


def requeue_after(delay: timedelta | float) -> Action:
    """Runs again after a delay (seconds, or a timedelta; at most about 49 days), or earlier after an event.
    Fractions of a millisecond are rounded up. 0: at once, but at most every 100 ms for a key."""
    return Action(checks.milliseconds("a delay", delay))


class Reconciler(ABC):
    """A guest. One object is made when the component is built and serves every call of an instance."""

    @abstractmethod
    def describe(self) -> Description:
        """Returns the watches, how events become requests, and the indexes. Called when the guest is loaded and when its config
        or grants change. Every call to a cluster is denied; :func:`windlass.config` works. An exception fails the load
        with its message."""

    @abstractmethod
    def reconcile(self, request: Request, cluster: Cluster) -> Action | None:
        """Brings the object that ``request`` names to its desired state. The request names an object and never an event: read,
        compare, write the differences. At most one call runs for a request at a time, in any number of fresh instances. An
        exception fails the reconcile: see :class:`windlass.Retry` and :class:`windlass.Terminal`; :class:`windlass.NotReady` does not.
        """


def run(reconciler: Reconciler, request: Request, cluster: Cluster) -> Action | None:
    """Calls a guest's ``reconcile``."""
    try:
        return reconciler.reconcile(request, cluster)
    except NotReady as error:
        log.info("not ready yet", why=error)
        return requeue_after(error.after)


class Mapper(ABC):
    """A guest whose own code turns events into requests: ``class Guest(Reconciler, Mapper)`` with a watch that has
    ``Enqueue.MAPPED``, and ``[tool.windlass] world = "mapped-reconcile"``."""

    @abstractmethod
    def map(self, cluster: Cluster, kind: Kind, objects: list[Object]) -> Iterable[Request]:
        """Returns the requests, of any granted cluster, for these changed objects of ``cluster``. An update passes the old and
        the new object. Reads come only from the cache. After an exception the event is mapped again with growing delay.
        """
