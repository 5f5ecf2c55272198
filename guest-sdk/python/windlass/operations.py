"""The calls to a cluster as values, for :meth:`windlass.Cluster.batch` and for the scripts of unit tests. The methods of
:class:`windlass.Cluster` take the same arguments. Entry point: :class:`Operation`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, get_args

from . import checks
from .objects import Key, Kind, Object, key_of, kind_of

PatchType = Literal["merge", "json-patch", "strategic-merge"]
"""``merge``: a partial object, None removes (RFC 7386). ``json-patch``: a list of operations (RFC 6902).
``strategic-merge``: as merge, with lists merged by their keys; not for custom resources."""

Propagation = Literal["background", "foreground", "orphan"]
"""Decides about the dependents of a deleted object: delete them afterwards, delete them first, or keep them."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list."""

    items: list[Object]
    continue_token: str | None = None
    """Asks for the next page; ``None`` on the last."""
    resource_version: str = ""
    """The version that the list is of."""

    def __iter__(self) -> Iterator[Object]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class Effect(StrEnum):
    """What a write that may have nothing to do did."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write that may have nothing to do."""

    effect: Effect
    object: Object
    """As it is stored."""

    @property
    def changed(self) -> bool:
        """Whether something was written that the server did not have."""
        return self.effect != Effect.UNCHANGED


_CHECKS: dict[str, checks.Check] = {
    # Kinds and keys may be written as text.
    "kind": lambda _, value: Kind.of(value),
    "key": lambda _, value: Key.of(value),
    "object": checks.mapping,
    **dict.fromkeys(
        ("namespace", "labels", "fields", "subresource", "continue_token", "uid", "resource_version"),
        checks.optional(checks.text),
    ),
    **dict.fromkeys(("live", "metadata_only", "dry_run", "force"), checks.flag),
    "index": checks.optional(checks.pair),
    "limit": checks.whole,
    "grace_period": checks.optional(checks.whole),
    "type": checks.one_of(*get_args(PatchType)),
    "propagation": checks.optional(checks.one_of(*get_args(Propagation))),
}
"""The checks of the fields of every call, by name."""


class Operation:
    """One call of a batch."""

    __slots__ = ()

    def __post_init__(self) -> None:
        checks.fields_of(self, _CHECKS)


@dataclass(frozen=True, slots=True)
class Get(Operation):
    """Reads an object."""

    kind: Kind | str
    key: Key | str
    live: bool = field(default=False, kw_only=True)
    metadata_only: bool = field(default=False, kw_only=True)
    subresource: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class List(Operation):
    """Lists a page of objects."""

    kind: Kind | str
    namespace: str | None = field(default=None, kw_only=True)
    labels: str | None = field(default=None, kw_only=True)
    fields: str | None = field(default=None, kw_only=True)
    index: tuple[str, str] | None = field(default=None, kw_only=True)
    limit: int = field(default=0, kw_only=True)
    continue_token: str | None = field(default=None, kw_only=True)
    live: bool = field(default=False, kw_only=True)
    metadata_only: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Create(Operation):
    """Creates an object."""

    object: Mapping[str, Any]
    subresource: str | None = field(default=None, kw_only=True)
    dry_run: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Update(Operation):
    """Replaces an object."""

    object: Mapping[str, Any]
    subresource: str | None = field(default=None, kw_only=True)
    dry_run: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Patch(Operation):
    """Patches an object."""

    kind: Kind | str
    key: Key | str
    patch: Any
    type: PatchType = field(default="merge", kw_only=True)
    subresource: str | None = field(default=None, kw_only=True)
    dry_run: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Apply(Operation):
    """Applies an object."""

    object: Mapping[str, Any]
    force: bool = field(default=False, kw_only=True)
    subresource: str | None = field(default=None, kw_only=True)
    dry_run: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Delete(Operation):
    """Deletes an object."""

    kind: Kind | str
    key: Key | str
    uid: str | None = field(default=None, kw_only=True)
    resource_version: str | None = field(default=None, kw_only=True)
    propagation: Propagation | None = field(default=None, kw_only=True)
    grace_period: int | None = field(default=None, kw_only=True)
    dry_run: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class DeleteCollection:
    """Deletes every selected object. Not for a batch."""

    kind: Kind | str
    namespace: str | None = field(default=None, kw_only=True)
    labels: str | None = field(default=None, kw_only=True)
    fields: str | None = field(default=None, kw_only=True)
    uid: str | None = field(default=None, kw_only=True)
    resource_version: str | None = field(default=None, kw_only=True)
    propagation: Propagation | None = field(default=None, kw_only=True)
    grace_period: int | None = field(default=None, kw_only=True)
    dry_run: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        checks.fields_of(self, _CHECKS)


@dataclass(frozen=True, slots=True)
class Event:
    """An event about an object. Not for a batch."""

    about: Mapping[str, Any]
    """The object; the parts that :func:`windlass.new_object` sets are enough."""
    reason: str
    """The reason in CamelCase."""
    note: str
    """For people."""
    warning: bool = field(default=False, kw_only=True)
    """Whether the event has the type Warning."""
    action: str = field(default="Reconcile", kw_only=True)
    """The action in CamelCase."""

    @property
    def kind(self) -> Kind:
        """The kind of the object."""
        return kind_of(self.about)

    @property
    def key(self) -> Key:
        """The key of the object."""
        return key_of(self.about)


Call = Operation | DeleteCollection
"""Any call that has a result."""

Answer = Object | Page | None
"""Of a get and of writes: the object, or ``None`` if it is absent. Of a list: a page. Of a delete: ``None``."""
