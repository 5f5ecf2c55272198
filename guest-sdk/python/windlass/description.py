"""The watches and indexes that a guest needs. Entry point: :class:`Description`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from . import checks
from .objects import Kind

Clusters = Literal["as-configured", "local", "provider", "all"]
"""Which clusters a watch engages: those that the operator chose, the local one, those of providers, or both."""

Change = Literal["generation", "labels", "annotations", "status"]
"""Which change of an object counts. Creation, deletion and a deletionTimestamp always count."""


@dataclass(frozen=True, slots=True)
class Enqueue:
    """How an event on a watched object becomes requests."""

    rule: Literal["primary", "controller-owner", "any-owner", "same-name", "by-index", "mapped"]
    index: str | None = None

    def __post_init__(self) -> None:
        checks.fields_of(self, {"index": checks.optional(checks.text)})

    PRIMARY: ClassVar[Enqueue]
    """The object itself."""
    CONTROLLER_OWNER: ClassVar[Enqueue]
    """The owner of the primary kind that controls it."""
    ANY_OWNER: ClassVar[Enqueue]
    """Every owner of the primary kind."""
    SAME_NAME: ClassVar[Enqueue]
    """The primary object of the same namespace and name."""
    MAPPED: ClassVar[Enqueue]
    """:meth:`windlass.Mapper.map` decides."""

    @staticmethod
    def by_index(name: str) -> Enqueue:
        """Every primary object whose index of that name holds this object's name or ``namespace/name``."""
        return Enqueue("by-index", name)


Enqueue.PRIMARY = Enqueue("primary")
Enqueue.CONTROLLER_OWNER = Enqueue("controller-owner")
Enqueue.ANY_OWNER = Enqueue("any-owner")
Enqueue.SAME_NAME = Enqueue("same-name")
Enqueue.MAPPED = Enqueue("mapped")


@dataclass(frozen=True, slots=True)
class Watch:
    """One kind to watch."""

    kind: Kind | str
    enqueue: Enqueue = field(default=Enqueue.PRIMARY)
    clusters: Clusters = field(default="as-configured", kw_only=True)
    labels: str | None = field(default=None, kw_only=True)
    """As kubectl's ``-l``; ``None``: every object."""
    fields: str | None = field(default=None, kw_only=True)
    """As kubectl's ``--field-selector``, on metadata.name and metadata.namespace; ``None``: every object."""
    changes: Sequence[Change] = field(default=(), kw_only=True)
    """Which changes count; empty: every one."""
    metadata_only: bool = field(default=False, kw_only=True)
    """Whether the guest needs only apiVersion, kind and metadata: the host then keeps no more."""
    options: dict[str, str] = field(default_factory=dict, kw_only=True)
    """For later versions; a key that the host does not know fails the load."""

    def __post_init__(self) -> None:
        checks.fields_of(self, _CHECKS)


@dataclass(frozen=True, slots=True)
class Index:
    """A lookup by the value of a field, kept by the host: for :meth:`windlass.Cluster.list` and :meth:`Enqueue.by_index`."""

    kind: Kind | str
    name: str
    """Unique for the kind."""
    path: str
    """Dot-separated names, ``['quoted']`` ones, ``[*]`` for every element: ``spec.template.spec.volumes[*].configMap.name``."""
    namespace_path: str | None = field(default=None, kw_only=True)
    """The path of the referenced object's namespace; ``None``: the object's own namespace."""
    options: dict[str, str] = field(default_factory=dict, kw_only=True)
    """For later versions; a key that the host does not know fails the load."""

    def __post_init__(self) -> None:
        checks.fields_of(self, _CHECKS)


@dataclass(frozen=True, slots=True)
class Description:
    """The watches and indexes that a guest needs. They narrow the grants of the operator; anything outside fails the load."""

    title: str
    """For people."""
    watches: Sequence[Watch] = field(default=(), kw_only=True)
    indexes: Sequence[Index] = field(default=(), kw_only=True)
    primary: Kind | str | None = field(default=None, kw_only=True)
    """The kind that requests name; default: that of the watch with :attr:`Enqueue.PRIMARY`."""
    options: dict[str, str] = field(default_factory=dict, kw_only=True)
    """For later versions; a key that the host does not know fails the load."""

    def __post_init__(self) -> None:
        checks.fields_of(self, _CHECKS)
        primary = self.primary
        if primary is None:
            primary = next((watch.kind for watch in self.watches if watch.enqueue == Enqueue.PRIMARY), None)
        object.__setattr__(self, "primary", None if primary is None else Kind.of(primary))


_CHECKS: dict[str, checks.Check] = {
    **dict.fromkeys(("title", "name", "path"), checks.text),
    **dict.fromkeys(("labels", "fields", "namespace_path"), checks.optional(checks.text)),
    "kind": lambda _, value: Kind.of(value),
    "enqueue": checks.instance_of(Enqueue),
    "clusters": checks.one_of(*get_args(Clusters)),
    "changes": checks.sequence(checks.one_of(*get_args(Change))),
    "metadata_only": checks.flag,
    "options": checks.texts_by_name,
    "watches": checks.sequence(checks.instance_of(Watch)),
    "indexes": checks.sequence(checks.instance_of(Index)),
}
"""The checks of the fields of a description and of its parts, by name."""
