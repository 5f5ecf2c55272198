"""The host below the SDK: the real host inside a component, a fleet in memory or a script in a unit test. Entry points:
:func:`config`, :func:`now` and :func:`timestamp`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from .errors import ApiError
from .http_messages import Request, Response
from .operations import Answer, Call, Event, Operation


class Client(Protocol):
    """One cluster's API, below :class:`windlass.Cluster`."""

    def name(self) -> str:
        """The cluster's name."""

    def call(self, call: Call) -> Answer:
        """Runs one call; raises :class:`ApiError`."""

    def batch(self, operations: Sequence[Operation]) -> list[Answer | ApiError]:
        """Runs operations concurrently; the results are in the same order."""

    def record(self, event: Event) -> None:
        """Records an event."""

    def close(self) -> None:
        """Closes the cluster."""


class Host(Protocol):
    """The imports of a guest except the clusters' API."""

    def config(self) -> str:
        """The reconciler's configuration as JSON."""

    def now(self) -> str:
        """The time, RFC 3339."""

    def log(self, level: str, message: str, fields: list[tuple[str, str]]) -> None:
        """Writes a line to the log."""

    def clusters(self, labels: str | None) -> list[tuple[str, dict[str, str], dict[str, str], bool]]:
        """Name, labels, properties and readiness of the granted clusters; raises :class:`ApiError`."""

    def open(self, name: str) -> Client:
        """Opens a cluster; raises :class:`ApiError`."""

    def batch(self, operations: Sequence[tuple[str, Operation]]) -> list[Answer | ApiError]:
        """Runs operations concurrently in several clusters; the results are in the same order."""

    def http(self, request: Request) -> Response:
        """Sends a request to a server that is no API server; raises :class:`ApiError`."""


_current: Host | None = None


def current() -> Host:
    """The host of this call."""
    if _current is None:
        raise RuntimeError(
            "there is no host outside a component: in a test, windlass.testing.Fleet or windlass.testing.Script is one"
        )
    return _current


def install(host: Host | None) -> Host | None:
    """Sets the host, and returns the previous one."""
    global _current
    before, _current = _current, host
    return before


def config() -> Any:
    """The reconciler's configuration, decoded; ``{}`` if there is none.

    Check it in ``describe`` too, so that a wrong configuration fails the load and not every reconcile.
    """
    return json.loads(current().config())


def now() -> datetime:
    """The time of the host, in UTC."""
    return datetime.fromisoformat(current().now())


def timestamp(time: datetime) -> str:
    """A time with its zone, in the format of objects: ``2026-01-31T09:30:00.000Z``."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
