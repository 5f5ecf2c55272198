"""What the hosts of unit tests share, the script and the fleet in memory. Entry points: :func:`reconciled`,
:func:`described`, :func:`answered` and :class:`RecordingHost`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from .cluster import Cluster
from .description import Description, Enqueue
from .http_messages import Response
from .reconciler import DONE, Action, Reconciler, Request, run


class Unexpected(AssertionError):
    """The guest did what no host accepts, or did not follow the script."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that the guest wrote to the log."""

    level: str
    message: str
    fields: dict[str, str]


class Surroundings(Protocol):
    """Config, clock and log of a test."""

    config: Any
    now: datetime | str
    logs: list[LogLine]


class RecordingHost:
    """The imports of a guest that every unit test has."""

    def __init__(self, test: Surroundings) -> None:
        self._test = test

    def config(self) -> str:
        """The configuration as JSON."""
        return json.dumps(self._test.config)

    def now(self) -> str:
        """The time, RFC 3339."""
        now = self._test.now
        return now if isinstance(now, str) else now.isoformat()

    def log(self, level: str, message: str, fields: list[tuple[str, str]]) -> None:
        """Keeps a line of the log."""
        self._test.logs.append(LogLine(level, message, dict(fields)))


def reconciled(reconciler: Reconciler, request: Request, cluster: Cluster) -> Action:
    """Runs ``reconcile``, and checks its result."""
    action = run(reconciler, request, cluster)
    if action is not None and not isinstance(action, Action):
        raise Unexpected(f"reconcile answered {action!r}: answer nothing, windlass.DONE or windlass.requeue_after(…)")
    return DONE if action is None else action


def answered(answer: Any) -> Response:
    """Checks what a test answers for a server."""
    if not isinstance(answer, Response):
        raise TypeError(f"the test answers {answer!r}: answer with a windlass.http.Response")
    return answer


def described(reconciler: Reconciler) -> Description:
    """Runs ``describe``, and checks the rules that every host checks."""
    description = reconciler.describe()
    rules = [watch.enqueue for watch in description.watches]
    if rules.count(Enqueue.PRIMARY) > 1:
        raise Unexpected("at most one watch may have Enqueue.PRIMARY")
    needs_primary = [rule for rule in rules if rule != Enqueue.MAPPED]
    if needs_primary and description.primary is None:
        raise Unexpected(
            f"a watch with {needs_primary[0].rule} needs a primary kind: a watch with Enqueue.PRIMARY, or primary="
        )
    return description
