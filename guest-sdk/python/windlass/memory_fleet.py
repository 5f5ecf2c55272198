"""Clusters in memory, and the config, clock and log of a guest. Entry points: :class:`Fleet` and
:class:`MemoryCluster`, which tests import from :mod:`windlass.testing`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, get_args

from . import checks, host
from .cluster import Cluster
from .description import Description
from .errors import ApiError, Denied
from .memory_client import READS, MemoryClient, State, Verb, sent_in_batch
from .memory_fields import plain
from .memory_select import label_selector
from .objects import Key, Kind, Object
from .operations import Answer, Event, Operation
from .reconciler import Action, Mapper, Reconciler, Request
from .testing_shared import LogLine, RecordingHost, described, reconciled


class Fleet:
    """The host of a test: clusters that keep objects and answer as an API server does, as far as controllers rely
    on it.

    Versions and conflicts, generation, the status subresource, label selectors, pages, merge patches, finalizers and
    the deletion of what an owner leaves behind are as on a server. Server-side apply has no field managers, so nothing
    is a conflict. No schema is checked, there is no index but that of :class:`windlass.Dependents`, and a cached read
    is as fresh as a live one.
    """

    def __init__(self, *, config: Any = None, now: datetime | str = "2026-01-31T09:30:00.000Z") -> None:
        """``config`` is the configuration, ``now`` the time. Both are attributes that a test may set later."""
        self.config: Any = {} if config is None else config
        self.now = now
        self.logs: list[LogLine] = []
        """Lines that the guest wrote to the log."""
        self._clusters: dict[str, MemoryCluster] = {}

    def cluster(
        self, name: str, *, labels: Mapping[str, str] | None = None, properties: Mapping[str, str] | None = None
    ) -> MemoryCluster:
        """The cluster of this name, made empty by the first call; ``""`` is the local one. ``labels`` and
        ``properties`` are added to those that it has."""
        cluster = self._clusters.setdefault(checks.text("name", name), MemoryCluster(self, name))
        cluster.labels |= checks.texts_by_name("labels", labels or {})
        cluster.properties |= checks.texts_by_name("properties", properties or {})
        return cluster

    def describe(self, reconciler: Reconciler) -> Description:
        """Runs ``describe``, and checks the rules that every host checks."""
        with self.running():
            return described(reconciler)

    @contextmanager
    def running(self) -> Iterator[Fleet]:
        """Replaces the host by the fleet inside this ``with``, for tests of parts of a guest."""
        before = host.install(_Host(self))
        try:
            yield self
        finally:
            host.install(before)


class MemoryCluster:
    """A cluster in memory. Its methods act for the test: they are no calls of the guest, and :meth:`fail_next` does not
    fail them."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        """Use :meth:`Fleet.cluster`."""
        self.name = name
        self.labels: dict[str, str] = {}
        """For :func:`windlass.fleet.clusters`."""
        self.properties: dict[str, str] = {}
        """For :func:`windlass.fleet.clusters`."""
        self._fleet = fleet
        self._state = State()

    @property
    def client(self) -> Cluster:
        """The guest's client, for a test of a part of a guest. Use it inside :meth:`Fleet.running` if that part writes
        to the log, reads the config or the time, or opens clusters."""
        return Cluster(MemoryClient(self.name, self._state))

    @property
    def events(self) -> list[Event]:
        """Events that the guest recorded here."""
        return self._state.events

    @property
    def calls(self) -> list[Verb]:
        """The verbs of the calls that the guest made here, in order, failed ones too."""
        return self._state.calls

    @property
    def writes(self) -> int:
        """How many of the calls were writes."""
        return sum(verb not in READS for verb in self._state.calls)

    def put(self, obj: Mapping[str, Any]) -> None:
        """Stores an object as another writer would: creates it, or replaces the fields that it names and merges its
        metadata."""
        self._state.store.put(plain(obj))

    def get(self, kind: Kind | str, key: Key | str) -> Object | None:
        """A copy of an object as it is stored; ``None`` if there is none."""
        found: Object | None = plain(self._state.store.get(Kind.of(kind), Key.of(key)))
        return found

    def objects(self) -> list[Object]:
        """Copies of all objects, by kind, namespace and name."""
        return [plain(obj) for obj in self._state.store.all()]

    def remove(self, kind: Kind | str, key: Key | str) -> None:
        """Deletes an object as another writer would, and the objects that had no other owner."""
        self._state.store.remove(Kind.of(kind), Key.of(key))

    def fail_next(self, verb: Verb, error: ApiError) -> None:
        """Lets the guest's next call of this verb fail. Several errors are used in order, one for each call."""
        checks.one_of(*get_args(Verb))("verb", verb)
        self._state.failures.append((verb, error))

    def reconcile(self, reconciler: Reconciler, key: Key | str) -> Action:
        """Runs ``reconcile`` for an object of this cluster, and returns its action. Raises what the guest raises."""
        with self._fleet.running():
            return reconciled(reconciler, Request(self.name, Key.of(key)), self.client)

    def reconciled_writes(self, reconciler: Reconciler, key: Key | str) -> int:
        """Runs ``reconcile`` and returns the number of its writes in this cluster. A second run should return 0."""
        before = self.writes
        self.reconcile(reconciler, key)
        return self.writes - before

    def map(self, mapper: Mapper, kind: Kind | str, *objects: Object) -> list[Request]:
        """Runs ``map`` for objects that changed in this cluster."""
        with self._fleet.running():
            return list(mapper.map(self.client, Kind.of(kind), list(objects)))


class _Host(RecordingHost):
    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._clusters = fleet._clusters

    def clusters(self, labels: str | None) -> list[tuple[str, dict[str, str], dict[str, str], bool]]:
        matches = label_selector(labels)
        known = (self._clusters[name] for name in sorted(self._clusters))
        return [
            (each.name, dict(each.labels), dict(each.properties), True)
            for each in known
            if matches(each.labels)
        ]

    def open(self, name: str) -> MemoryClient:
        return MemoryClient(name, self._find(name)._state)

    def batch(self, operations: Sequence[tuple[str, Operation]]) -> list[Answer | ApiError]:
        asked = [(name, sent_in_batch(operation)) for name, operation in operations]
        return [self._attempt(name, operation) for name, operation in asked]

    def _attempt(self, name: str, operation: Operation) -> Answer | ApiError:
        try:
            return self._find(name)._state.attempt(operation)
        except Denied as error:
            return error

    def _find(self, name: str) -> MemoryCluster:
        if name not in self._clusters:
            raise Denied(f'this fleet has no cluster "{name}": the test names it with Fleet.cluster')
        return self._clusters[name]
