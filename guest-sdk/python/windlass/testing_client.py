"""The calls of a guest on a cluster of a test. Entry points: :class:`State`, which answers them, and :class:`GuestClient`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .dependents import OWNER
from .errors import ApiError, Invalid
from .objects import Object
from .operations import Answer, Call, Event, Operation
from .testing_program import Connection
from .testing_shared import Unexpected
from .wire import function, result, value

Verb = Literal["get", "list", "create", "update", "patch", "apply", "delete", "delete_collection"]
"""The kind of call that a test counts, or lets fail."""

READS: tuple[Verb, ...] = ("get", "list")
"""The verbs that write nothing."""

_VERBS: dict[str, Verb] = {
    "Get": "get",
    "List": "list",
    "Create": "create",
    "Update": "update",
    "Patch": "patch",
    "Apply": "apply",
    "Delete": "delete",
    "DeleteCollection": "delete_collection",
}


@dataclass(slots=True)
class State:
    """A cluster, and what the guest did there."""

    name: str
    connection: Connection
    events: list[Event] = field(default_factory=list)
    calls: list[Verb] = field(default_factory=list)
    failures: list[tuple[Verb, ApiError]] = field(default_factory=list)
    """The errors of the next calls, in order; each is used once."""

    def answer(self, name: str, arguments: Object) -> Answer:
        """Counts a call and runs it, or fails it if the test asked for it."""
        verb = _VERBS[name]
        self.calls.append(verb)
        for at, (failing, error) in enumerate(self.failures):
            if failing == verb:
                del self.failures[at]
                raise error
        return value(result(self.connection.call(self.name, name, _unindexed(arguments))))

    def attempt(self, name: str, arguments: Object) -> Answer | ApiError:
        """As :meth:`answer`, for an operation of a batch: its error is a result."""
        try:
            return self.answer(name, arguments)
        except ApiError as error:
            return error


def sent(operation: Operation) -> tuple[str, Object]:
    """An operation of a batch as the host gets it. What no host accepts fails here, before any operation runs."""
    if not isinstance(operation, Operation):
        raise TypeError(f"{operation!r} is nothing for a batch")
    return function(operation)


def _unindexed(arguments: Object) -> Object:
    """The same call without the index of dependents: a fleet of tests watches nothing, so it has no indexes."""
    options = arguments["options"]
    match options.get("index"):
        case None:
            return arguments
        case (name, uid) if name == OWNER:
            return arguments | {"options": options | {"index": None, "label_selector": f"{OWNER}={uid}"}}
        case (name, _):
            message = f"a fleet of tests has no index {name!r}: list by label, or use `windlass test`"
    raise Invalid(message, http_status=422)


class GuestClient:
    """The client of a guest for a cluster of a test."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._closed = False

    def name(self) -> str:
        """The cluster's name."""
        return self._state.name

    def call(self, call: Call) -> Answer:
        """Runs one call."""
        return self._open(call).answer(*function(call))

    def batch(self, operations: Sequence[Operation]) -> list[Answer | ApiError]:
        """Runs operations in their order."""
        state = self._open(operations)
        return [state.attempt(*each) for each in [sent(operation) for operation in operations]]

    def record(self, event: Event) -> None:
        """Keeps an event for the test."""
        event.kind, event.key  # fails for an object without kind or key, as in a component
        self._open(event).events.append(event)

    def close(self) -> None:
        """Closes the cluster."""
        self._closed = True

    def _open(self, call: Any) -> State:
        if self._closed:
            raise Unexpected(f"a call to {self._state.name!r}, which is closed: {call}")
        return self._state
