"""The other clusters. Entry points: :func:`clusters`, :func:`open` and :func:`batch`.

They need a world that has ``fleet`` (``[tool.windlass] world = "fleet-reconcile"``) and rules that name clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from . import checks
from .cluster import Answers, Cluster, answers
from .host import current
from .operations import Operation


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The facts about a cluster that need no request to it."""

    name: str
    """``""`` is the local cluster."""
    labels: dict[str, str] = field(default_factory=dict)
    """Those that its provider gave it."""
    properties: dict[str, str] = field(default_factory=dict)
    """Those that its provider gave it."""
    ready: bool = True
    """Whether the cluster answers and its caches are filled."""


def clusters(labels: str | None = None) -> list[ClusterInfo]:
    """The granted clusters, sorted by name; ``labels`` selects as kubectl's ``-l``. The only function of this module that a
    mapper may call."""
    return [ClusterInfo(*known) for known in current().clusters(checks.optional(checks.text)("labels", labels))]


def open(name: str) -> Cluster:
    """Opens a cluster until this call ends, or until a ``with`` statement ends: ``with fleet.open("beta") as beta:``.

    Raises :class:`windlass.Denied` when no rule opens it, :class:`windlass.ClusterGone` when there is none.
    """
    return Cluster(current().open(checks.text("name", name)))


def local() -> Cluster:
    """Opens the local (hub) cluster, as :func:`open`."""
    return open("")


def batch(operations: Sequence[tuple[str, Operation]], *, return_errors: bool = False) -> Answers:
    """As :meth:`windlass.Cluster.batch`, each operation in the cluster named with it."""
    asked = [(checks.text("cluster", name), operation) for name, operation in operations]
    return answers(current().batch(asked), return_errors)
