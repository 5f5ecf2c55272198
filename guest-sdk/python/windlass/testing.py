"""Unit tests of guests in plain Python, without a component. Entry points: :class:`Fleet`, clusters in memory of the program
``windlass``, and :class:`Script`, the expected calls and their answers.

A fleet fits most tests: put objects, run the guest, look at what is stored. ::

    from windlass.testing import Fleet

    def test_it_copies(self):
        fleet = Fleet(config={"suffix": "copy"})
        alpha = fleet.cluster("alpha")
        alpha.put(original)
        self.assertEqual(alpha.reconcile(Copier(), "default/a"), windlass.DONE)
        self.assertEqual(alpha.get("v1/ConfigMap", "default/a-copy")["data"], original["data"])
        self.assertEqual(alpha.reconciled_writes(Copier(), "default/a"), 0)

What a guest did is in :attr:`MemoryCluster.calls`, :attr:`MemoryCluster.events` and :attr:`Fleet.logs`, and
:meth:`MemoryCluster.fail_next` lets a call fail.

A script fits where each call and its options matter. ::

    from windlass.operations import Apply, Get
    from windlass.testing import Script

    def test_it_copies(self):
        script = Script("alpha")
        script.expect(Get("v1/ConfigMap", "default/a"), returns=original)
        script.expect(Apply(copy, force=True), returns=copy)
        self.assertEqual(script.reconcile(Copier(), "default/a"), windlass.DONE)

A call that is not the next one of the script raises, and so do calls that are left at the end. Events and lines of the
log are recorded in :attr:`Script.events` and :attr:`Script.logs`.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from . import host
from .cluster import Cluster
from .description import Description
from .errors import ApiError
from .fleet import ClusterInfo
from .http_messages import Request as HttpRequest
from .http_messages import Response as HttpResponse
from .objects import Key, Kind, Object
from .operations import Answer, Call, Event, Operation
from .reconciler import Action, Mapper, Reconciler, Request
from .testing_client import Verb
from .testing_fleet import Fleet, MemoryCluster
from .testing_shared import LogLine, RecordingHost, Unexpected, answered, described, reconciled

__all__ = [
    "Batch",
    "Clusters",
    "Expected",
    "Fleet",
    "FleetBatch",
    "LogLine",
    "MemoryCluster",
    "Open",
    "Script",
    "Unexpected",
    "Verb",
]


@dataclass(frozen=True, slots=True)
class Batch:
    """Expects :meth:`windlass.Cluster.batch`; the answer is a list of results and errors."""

    operations: Sequence[Operation]

    def __post_init__(self) -> None:
        object.__setattr__(self, "operations", tuple(self.operations))


@dataclass(frozen=True, slots=True)
class FleetBatch:
    """Expects :func:`windlass.fleet.batch`; the answer is a list of results and errors."""

    operations: Sequence[tuple[str, Operation]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "operations", tuple(self.operations))


@dataclass(frozen=True, slots=True)
class Clusters:
    """Expects :func:`windlass.fleet.clusters`; its answer is a list of :class:`windlass.ClusterInfo`."""

    labels: str | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """Expects :func:`windlass.fleet.open`; calls in that cluster are expected with ``cluster=``."""

    name: str


Expected = Call | Batch | FleetBatch | Clusters | Open | HttpRequest


_OF_NO_CLUSTER = (FleetBatch, Clusters, Open, HttpRequest)


@dataclass(frozen=True, slots=True)
class _Step:
    where: str | None
    call: Expected
    answer: Any

    def __str__(self) -> str:
        return _show(self.where, self.call)


class Script:
    """The host of a test: the expected calls, in order, and their answers."""

    def __init__(
        self, cluster: str = "alpha", *, config: Any = None, now: datetime | str = "2026-01-31T09:30:00.000Z"
    ) -> None:
        """``cluster`` is the cluster of the requests, ``config`` the configuration, ``now`` the time."""
        self.cluster = cluster
        self.config: Any = {} if config is None else config
        self.now = now
        self.events: list[Event] = []
        """Events that the guest recorded, in all clusters."""
        self.logs: list[LogLine] = []
        """Lines that the guest wrote to the log."""
        self._steps: deque[_Step] = deque()
        self._failure: Unexpected | None = None

    def expect(
        self, call: Expected, *, returns: Any = None, raises: ApiError | None = None, cluster: str | None = None
    ) -> None:
        """Adds the next call and its answer: a result that it ``returns`` (an object, a :class:`windlass.Page`, a list for batches
        and clusters, a :class:`windlass.http.Response`, nothing), or an error that it ``raises``. ``cluster`` is the cluster of the call; default: the request's.
        """
        where = None if isinstance(call, _OF_NO_CLUSTER) else self.cluster if cluster is None else cluster
        self._steps.append(_Step(where, copy.deepcopy(call), copy.deepcopy(returns) if raises is None else raises))

    def reconcile(self, reconciler: Reconciler, key: Key | str) -> Action:
        """Runs ``reconcile`` for an object of the cluster and returns its action. Raises the exceptions of the guest."""
        with self.running():
            return reconciled(reconciler, Request(self.cluster, Key.of(key)), Cluster(_Client(self, self.cluster)))

    def map(self, mapper: Mapper, kind: Kind | str, *objects: Object) -> list[Request]:
        """Runs ``map`` for objects that changed in the cluster."""
        with self.running():
            return list(mapper.map(Cluster(_Client(self, self.cluster)), Kind.of(kind), list(objects)))

    def describe(self, reconciler: Reconciler) -> Description:
        """Runs ``describe``, and checks the rules that every host checks."""
        with self.running():
            return described(reconciler)

    @contextmanager
    def running(self) -> Iterator[Script]:
        """Replaces the host by the script inside this ``with``, for tests of parts of a guest. No call may be left at its end, even
        after an exception."""
        before = host.install(_Host(self))
        try:
            yield self
        except Exception as error:
            self._finish(error)
            raise
        else:
            self._finish(None)
        finally:
            host.install(before)

    def _finish(self, error: Exception | None) -> None:
        """Raises the script's error, and resets it for the next run."""
        failure, self._failure = self._failure, None
        left = "\n  ".join(str(step) for step in self._steps)
        self._steps.clear()
        if failure is not None:
            raise failure  # even if the guest caught it
        if left:
            raise Unexpected(f"the script expects further calls:\n  {left}") from error

    def _answer(self, where: str | None, call: Expected) -> Any:
        step = self._steps.popleft() if self._steps else None
        if step is None or step.where != where or step.call != call:
            expected = "no further call" if step is None else str(step)
            self._failure = self._failure or Unexpected(
                f"unexpected call\n  {_show(where, call)}\nthe script expects\n  {expected}"
            )
            raise self._failure
        if isinstance(step.answer, ApiError):
            raise step.answer
        return step.answer


class _Client:
    def __init__(self, script: Script, name: str) -> None:
        self._script = script
        self._name = name
        self._closed = False

    def name(self) -> str:
        return self._name

    def call(self, call: Call) -> Answer:
        return self._ask(call)  # type: ignore[no-any-return]

    def batch(self, operations: Sequence[Operation]) -> list[Answer | ApiError]:
        return _as_many(self._ask(Batch(operations)), operations)

    def record(self, event: Event) -> None:
        event.kind, event.key  # fails for an object without kind or key, as in a component
        self._script.events.append(event)

    def close(self) -> None:
        self._closed = True

    def _ask(self, call: Expected) -> Any:
        if self._closed:
            raise Unexpected(f"a call to {self._name!r}, which is closed: {call}")
        return self._script._answer(self._name, call)


class _Host(RecordingHost):
    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self._script = script

    def clusters(self, labels: str | None) -> list[tuple[str, dict[str, str], dict[str, str], bool]]:
        known: list[ClusterInfo] = self._script._answer(None, Clusters(labels)) or []
        return [(each.name, each.labels, each.properties, each.ready) for each in known]

    def open(self, name: str) -> _Client:
        self._script._answer(None, Open(name))
        return _Client(self._script, name)

    def batch(self, operations: Sequence[tuple[str, Operation]]) -> list[Answer | ApiError]:
        return _as_many(self._script._answer(None, FleetBatch(operations)), operations)

    def http(self, request: HttpRequest) -> HttpResponse:
        return answered(self._script._answer(None, request))


def _as_many(answers: Any, operations: Sequence[Any]) -> list[Answer | ApiError]:
    if not isinstance(answers, list) or len(answers) != len(operations):
        raise Unexpected(f"the script answers a batch of {len(operations)} with {answers!r}: give a list of as many")
    return answers


def _show(where: str | None, call: Expected) -> str:
    return f"{call}" if where is None else f"in {where}: {call}"
