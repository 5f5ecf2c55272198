"""The calls of a guest on a cluster in memory. Entry points: :class:`State`, which answers them, and
:class:`MemoryClient`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from .errors import ApiError, Invalid
from .memory_fields import Part, metadata_of, plain
from .memory_select import field_selector, label_selector, labels_of
from .memory_store import Store
from .objects import Key, Kind, Object, kind_of
from .operations import (
    Answer,
    Apply,
    Call,
    Create,
    Delete,
    DeleteCollection,
    Event,
    Get,
    List,
    Operation,
    Page,
    Patch,
    Update,
)
from .testing_shared import Unexpected

Verb = Literal["get", "list", "create", "update", "patch", "apply", "delete", "delete_collection"]
"""The kind of call that a test counts, or lets fail."""

READS: tuple[Verb, ...] = ("get", "list")
"""The verbs that write nothing."""

_VERBS: dict[type[Call], Verb] = {
    Get: "get",
    List: "list",
    Create: "create",
    Update: "update",
    Patch: "patch",
    Apply: "apply",
    Delete: "delete",
    DeleteCollection: "delete_collection",
}

_OWNER = "windlass.dev/owner"
"""The index of :class:`windlass.Dependents`, and the label that it is of."""

_PAGE = 500
"""Items of a page if the call sets no limit."""


@dataclass(slots=True)
class State:
    """What is in a cluster, and what the guest did there."""

    store: Store = field(default_factory=Store)
    events: list[Event] = field(default_factory=list)
    calls: list[Verb] = field(default_factory=list)
    failures: list[tuple[Verb, ApiError]] = field(default_factory=list)
    """The errors of the next calls, in order; each is used once."""

    def answer(self, call: Call) -> Answer:
        """Counts a call and answers it, or fails it if the test asked for it. The call is a result of :func:`sent`."""
        verb = _VERBS[type(call)]
        self.calls.append(verb)
        for at, (failing, error) in enumerate(self.failures):
            if failing == verb:
                del self.failures[at]
                raise error
        answer = self._serve(call)
        # A copy, because the guest may change what it gets. A page has copies already.
        return answer if isinstance(answer, Page) else plain(answer)

    def attempt(self, operation: Operation) -> Answer | ApiError:
        """As :meth:`answer`, for an operation of a batch: its error is a result."""
        try:
            return self.answer(operation)
        except ApiError as error:
            return error

    def _serve(self, call: Call) -> Answer:
        store = self.store
        match call:
            case Get(kind, key):
                _part(call.subresource)
                found = store.get(Kind.of(kind), Key.of(key))
                return None if found is None else _projected(found, call.metadata_only)
            case List():
                return self._list(call)
            case Create(obj):
                return store.create(kind_of(obj), dict(obj), dry=call.dry_run)
            case Update(obj):
                return store.update(kind_of(obj), dict(obj), _part(call.subresource), dry=call.dry_run)
            case Patch(kind, key, patch):
                if call.type != "merge":
                    raise Invalid("a test cluster knows merge patches only", http_status=422)
                part = _part(call.subresource)
                return store.patch(Kind.of(kind), Key.of(key), patch, part, dry=call.dry_run)
            case Apply(obj):
                return store.apply(kind_of(obj), dict(obj), _part(call.subresource), dry=call.dry_run)
            case Delete(kind, key):
                uid, version = call.uid, call.resource_version
                store.delete(Kind.of(kind), Key.of(key), uid=uid, resource_version=version, dry=call.dry_run)
            case DeleteCollection(kind):
                doomed = self._selected(kind, call.namespace, call.labels, call.fields)
                if not call.dry_run:
                    store.remove_all(doomed)
        return None

    def _list(self, call: List) -> Page:
        labels = call.labels
        if call.index is not None:
            name, value = call.index
            if name != _OWNER:
                message = "a test cluster has no indexes: list by label, or test with a real cluster"
                raise Invalid(message, http_status=422)
            labels = f"{_OWNER}={value}"
        selected = self._selected(call.kind, call.namespace, labels, call.fields)
        token = "0" if call.continue_token is None else call.continue_token
        if not token.isdecimal():
            raise Invalid("the continue token is of another list", http_status=422)
        start = int(token)
        end = min(start + (call.limit or _PAGE), len(selected))
        return Page(
            [plain(_projected(obj, call.metadata_only)) for obj in selected[start:end]],
            str(end) if end < len(selected) else None,
            str(self.store.version),
        )

    def _selected(
        self, kind: Kind | str, namespace: str | None, labels: str | None, fields: str | None
    ) -> list[Object]:
        labels_match, fields_match = label_selector(labels), field_selector(fields)
        return [
            obj
            for obj in self.store.of_kind(Kind.of(kind))
            if (namespace is None or metadata_of(obj).get("namespace") == namespace)
            and labels_match(labels_of(obj))
            and fields_match(obj)
        ]


class MemoryClient:
    """The client of a guest for a cluster in memory."""

    def __init__(self, name: str, state: State) -> None:
        self._name = name
        self._state = state
        self._closed = False

    def name(self) -> str:
        """The cluster's name."""
        return self._name

    def call(self, call: Call) -> Answer:
        """Runs one call."""
        return self._open(call).answer(sent(call))

    def batch(self, operations: Sequence[Operation]) -> list[Answer | ApiError]:
        """Runs operations in their order."""
        state = self._open(operations)
        return [state.attempt(operation) for operation in [sent_in_batch(each) for each in operations]]

    def record(self, event: Event) -> None:
        """Records an event."""
        event.kind, event.key  # fails for an object without kind or key, as in a component
        self._open(event).events.append(event)

    def close(self) -> None:
        """Closes the cluster."""
        self._closed = True

    def _open(self, call: object) -> State:
        if self._closed:
            raise Unexpected(f"a call to {self._name!r}, which is closed: {call}")
        return self._state


AnyCall = TypeVar("AnyCall", bound=Call)


def sent(call: AnyCall) -> AnyCall:
    """The call with copies of its values. What is no JSON, or has no kind, fails here as in a component: the host does
    not see it."""
    match call:
        case Create(obj) | Update(obj) | Apply(obj):
            kind_of(obj)
            return replace(call, object=plain(obj))
        case Patch():
            return replace(call, patch=plain(call.patch))
    return call


def sent_in_batch(operation: Operation) -> Operation:
    """As :func:`sent`, for an operation of a batch."""
    if not isinstance(operation, Operation):
        raise TypeError(f"{operation!r} is nothing for a batch")
    return sent(operation)


def _part(subresource: str | None) -> Part:
    if subresource is None:
        return "main"
    if subresource == "status":
        return "status"
    raise Invalid(f"a test cluster has no subresource {subresource!r}", http_status=422)


def _projected(obj: Object, metadata_only: bool) -> Any:
    if not metadata_only:
        return obj
    return {name: obj[name] for name in ("apiVersion", "kind", "metadata") if name in obj}
