"""Clusters of ``windlass fleet``, and the config, clock and log of a guest. Entry points: :class:`Fleet` and
:class:`MemoryCluster`, which tests import from :mod:`windlass.testing`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal, get_args

from . import checks, host, wire
from .cluster import Cluster
from .description import Description
from .errors import ApiError, Denied
from .http_messages import Request as HttpRequest
from .http_messages import Response as HttpResponse
from .objects import Key, Kind, Object, key_of
from .operations import Answer, Event, Operation
from .reconciler import Action, Mapper, Reconciler, Request
from .testing_client import READS, GuestClient, State, Verb, sent
from .testing_program import Connection
from .testing_shared import LogLine, RecordingHost, answered, described, reconciled


class Fleet:
    """The host of a test, with clusters of the in-memory API server of ``windlass dev`` and ``windlass test``: the first one of a
    process starts ``windlass fleet``. They check and answer as real ones do.

    They serve the built-in kinds and those whose CustomResourceDefinitions the project has, in whose folder the tests run;
    :meth:`MemoryCluster.put` and :meth:`define` add kinds without a schema. Reads are never older than the last write. There is no
    index but that of :class:`windlass.Dependents`.
    """

    def __init__(self, *, config: Any = None, now: datetime | str = "2026-01-31T09:30:00.000Z") -> None:
        """``config`` is the configuration, ``now`` the time that the guest reads. Both are attributes that a test may set later."""
        self.config: Any = {} if config is None else config
        self.now = now
        self.logs: list[LogLine] = []
        """Lines that the guest wrote to the log."""
        self._connection = Connection()
        self._clusters: dict[str, MemoryCluster] = {}
        self._serve: Callable[[HttpRequest], HttpResponse] | None = None

    def cluster(
        self, name: str, *, labels: Mapping[str, str] | None = None, properties: Mapping[str, str] | None = None
    ) -> MemoryCluster:
        """The cluster of this name, made empty by the first call; ``""`` is the local one. ``labels`` and ``properties`` are added to
        those that it has, for :func:`windlass.fleet.clusters`."""
        more = {
            "labels": checks.texts_by_name("labels", labels or {}),
            "properties": checks.texts_by_name("properties", properties or {}),
        }
        is_new = checks.text("name", name) not in self._clusters
        if is_new or labels or properties:
            self._connection.test("Cluster", name=name, **more)
        if is_new:
            self._clusters[name] = MemoryCluster(self, name)
        return self._clusters[name]

    def define(self, kind: Kind | str, *, namespaced: bool = True) -> None:
        """Serves a kind without a schema in all clusters, if it is not served. Not needed for a kind of which the test puts an object."""
        self._connection.test("Define", kind=wire.kind(kind), namespaced=namespaced)

    def serve(self, answer: Callable[[HttpRequest], HttpResponse]) -> None:
        """Answers what guests ask servers that are no API servers: ``fleet.serve(lambda request: http.Response(404))``. An
        :class:`ApiError` that it raises is that of the guest's call. Without this, every such call is denied."""
        if not callable(answer):
            raise TypeError(f"answer: expected a function, got {answer!r}")
        self._serve = answer

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
            self._connection.end()


class MemoryCluster:
    """A cluster in memory. Its methods act for the test: they are no calls of the guest, and :meth:`fail_next` does not
    fail them. They raise :class:`ValueError` for what the cluster refuses."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        """Use :meth:`Fleet.cluster`."""
        self.name = name
        self._fleet = fleet
        self._state = State(name, fleet._connection)

    @property
    def client(self) -> Cluster:
        """The guest's client, for a test of a part of a guest. Use it inside :meth:`Fleet.running` if that part writes
        to the log, reads the config or the time, or opens clusters."""
        return Cluster(GuestClient(self._state))

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
        """Stores an object as another writer would, by a server-side apply: creates it, or sets the fields that it names. Its
        namespace is made if there is none, and its kind is defined if it is not served. With a ``deletionTimestamp`` it is deleted
        then, which finalizers hold up."""
        self._test("Put", object=wire.encoded(obj))

    def patch(self, kind: Kind | str, key: Key | str, patch: Mapping[str, Any]) -> None:
        """Merges a patch into an object and its status as another writer would: ``None`` removes a field."""
        self._test("Merge", **_at(kind, key), patch=patch)

    def get(self, kind: Kind | str, key: Key | str) -> Object | None:
        """An object as it is stored; ``None`` if there is none."""
        found: Object | None = self._test("Stored", **_at(kind, key))
        return found

    def objects(self) -> list[Object]:
        """All objects that the test and the guest have made, by kind, namespace and name."""
        return sorted(self._test("Objects"), key=lambda obj: (obj["kind"], str(key_of(obj))))

    def remove(self, kind: Kind | str, key: Key | str) -> None:
        """Deletes an object as another writer would, and the objects that had no other owner."""
        self._test("Remove", **_at(kind, key))

    def label(self, labels: Mapping[str, str | None]) -> None:
        """Changes labels of the cluster: ``None`` removes one."""
        self._test("Label", labels=dict(labels))

    def leave(self) -> None:
        """Takes the cluster out of the fleet: a guest neither sees nor opens it. It keeps its objects, which this still answers;
        :meth:`Fleet.cluster` lets it join again."""
        self._test("Leave")
        self._fleet._clusters.pop(self.name, None)

    def fail(self, failure: Literal["unreachable", "errors"]) -> None:
        """Makes the cluster's API server fail, until it heals: no connection is made, or every request is answered with an error. Guests
        get the errors of their calls, and see that one that is not reached is not ready. The test itself still reads and writes."""
        checks.one_of("unreachable", "errors")("failure", failure)
        self._test("Fail", failure=failure.capitalize())

    def heal(self) -> None:
        """Ends the failure of the cluster's API server."""
        self._test("Fail", failure=None)

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

    def _test(self, name: str, /, **arguments: Any) -> Any:
        return self._fleet._connection.test(name, cluster=self.name, **arguments)


def _at(kind: Kind | str, key: Key | str) -> Object:
    return {"kind": wire.kind(kind), **wire.key(key)}


class _Host(RecordingHost):
    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._fleet, self._connection, self._clusters = fleet, fleet._connection, fleet._clusters

    def clusters(self, labels: str | None) -> list[tuple[str, dict[str, str], dict[str, str], bool]]:
        if not self._clusters:
            return []
        return wire.infos(self._connection.clusters(next(iter(self._clusters)), labels))

    def open(self, name: str) -> GuestClient:
        return GuestClient(self._find(name))

    def batch(self, operations: Sequence[tuple[str, Operation]]) -> list[Answer | ApiError]:
        return [self._attempt(name, *each) for name, each in [(name, sent(each)) for name, each in operations]]

    def http(self, request: HttpRequest) -> HttpResponse:
        if self._fleet._serve is None:
            raise Denied("this fleet has no answers for calls of servers: the test gives them with Fleet.serve")
        return answered(self._fleet._serve(request))

    def _attempt(self, name: str, function: str, arguments: Object) -> Answer | ApiError:
        try:
            return self._find(name).attempt(function, arguments)
        except Denied as error:
            return error

    def _find(self, name: str) -> State:
        if name not in self._clusters:
            raise Denied(f'this fleet has no cluster "{name}": the test names it with Fleet.cluster')
        return self._clusters[name]._state
