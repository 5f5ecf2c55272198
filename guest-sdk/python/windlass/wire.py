"""The contract as lines of JSON, for a guest outside of a component: ``guest-sdk/protocol.md``. Entry points: :class:`Lines`,
:func:`function`, and :func:`result` for what it answers."""

from __future__ import annotations

import json
import socket
import weakref
from typing import Any

from . import checks
from .description import Description, Enqueue, Watch
from .errors import ApiError
from .http_messages import Request as HttpRequest
from .http_messages import Response as HttpResponse
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
from .reconciler import Request


class Lines:
    """A connection to the program."""

    def __init__(self, path: str) -> None:
        """Raises :class:`OSError` when nobody listens at the path."""
        connection = socket.socket(socket.AF_UNIX)
        reader = connection.makefile("rb")
        # Closes the connection with its last user.
        weakref.finalize(self, _close, connection, reader)
        connection.connect(path)
        self._connection, self._reader = connection, reader

    def send(self, message: Any) -> None:
        """Sends a line."""
        # The host reads neither NaN nor half a character.
        line = checks.well_formed(json.dumps(message, ensure_ascii=False, allow_nan=False))
        self._connection.sendall(line.encode() + b"\n")

    def receive(self) -> Any:
        """The next line. Raises :class:`EOFError` when the program has ended."""
        line = self._reader.readline()
        if not line:
            raise EOFError("windlass has ended")
        return json.loads(line)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Calls a function of the host. Raises :class:`RuntimeError` where a component would trap."""
        self.send({"Call": {name: arguments} if arguments else name})
        answer = self.receive()
        if isinstance(answer, dict) and "Trap" in answer:
            raise RuntimeError(answer["Trap"])
        return answer


def _close(*parts: Any) -> None:
    for part in parts:
        part.close()


# What the guest sends.


def case(word: str) -> str:
    """A case of an enum that the contract calls ``word``."""
    return "".join(part.capitalize() for part in word.split("-"))


def kind(of: Kind | str) -> Object:
    """A kind."""
    of = Kind.of(of)
    return {"group": of.group, "version": of.version, "kind": of.kind}


def key(of: Key | str) -> Object:
    """A key."""
    of = Key.of(of)
    return {"namespace": of.namespace, "name": of.name}


def encoded(value: Any) -> str:
    """An object or a patch, which the contract has as a text."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def function(call: Call) -> tuple[str, Object]:
    """The function of the host for a call: its name, and its arguments but the cluster."""
    return type(call).__name__, _arguments(call)


def operation(each: Operation) -> Object:
    """An operation of a batch."""
    if not isinstance(each, Operation):
        raise TypeError(f"{each!r} is nothing for a batch")
    name, arguments = function(each)
    return {name: list(arguments.values())}


def event(of: Event) -> Object:
    """An event."""
    return {
        "kind": kind(of.kind),
        "key": key(of.key),
        "event_type": "Warning" if of.warning else "Normal",
        "reason": of.reason,
        "action": of.action,
        "note": of.note,
    }


def http_request(of: HttpRequest) -> Object:
    """A request to a server that is no API server."""
    return {
        "method": of.method,
        "url": of.url,
        "headers": list(of.headers.items()),
        "body": list(of.body),
        "timeout_ms": of.timeout_ms,
        "options": [],
    }


def request(of: Request) -> Object:
    """A request that a mapper answers."""
    return {"cluster": of.cluster, "key": key(of.key)}


def description(of: Description) -> Object:
    """What ``describe`` answers."""
    return {
        "title": of.title,
        "primary": None if of.primary is None else kind(of.primary),
        "watches": [_watch(watch) for watch in of.watches],
        "indexes": [
            {
                "kind": kind(index.kind),
                "name": index.name,
                "path": index.path,
                "namespace_path": index.namespace_path,
                "options": list(index.options.items()),
            }
            for index in of.indexes
        ],
        "options": list(of.options.items()),
    }


def _watch(watch: Watch) -> Object:
    return {
        "kind": kind(watch.kind),
        "enqueue": _enqueue(watch.enqueue),
        "clusters": case(watch.clusters),
        "label_selector": watch.labels,
        "field_selector": watch.fields,
        "changes": [case(change) for change in watch.changes],
        "metadata_only": watch.metadata_only,
        "options": list(watch.options.items()),
    }


def _enqueue(enqueue: Enqueue) -> Any:
    rule = case(enqueue.rule)
    return rule if enqueue.index is None else {rule: enqueue.index}


def _arguments(call: Call) -> Object:
    """The arguments of the contract's function for a call, in its order."""
    match call:
        case Get(of, at):
            return {"kind": kind(of), "key": key(at), "options": {**_reading(call), "subresource": call.subresource}}
        case List(of):
            paging = {"index": call.index, "limit": call.limit, "continue_token": call.continue_token}
            return {"kind": kind(of), "options": {**_selection(call), **paging, **_reading(call)}}
        case Create(obj) | Update(obj):
            return {"kind": kind(kind_of(obj)), "object": encoded(obj), "options": _writing(call)}
        case Apply(obj):
            return {
                "kind": kind(kind_of(obj)),
                "object": encoded(obj),
                "options": {**_writing(call), "force": call.force},
            }
        case Patch(of, at, patch):
            change = {"patch_type": case(call.type), "patch": encoded(patch)}
            return {"kind": kind(of), "key": key(at), **change, "options": _writing(call)}
        case Delete(of, at):
            return {"kind": kind(of), "key": key(at), "options": _deleting(call)}
        case DeleteCollection(of):
            return {"kind": kind(of), "selection": _selection(call), "options": _deleting(call)}
    raise TypeError(f"{call!r} is no call")


def _reading(call: Get | List) -> Object:
    projection = "Metadata" if call.metadata_only else "Full"
    return {"mode": "Live" if call.live else "Cached", "projection": projection}


def _selection(call: List | DeleteCollection) -> Object:
    return {"namespace": call.namespace, "label_selector": call.labels, "field_selector": call.fields}


def _writing(call: Create | Update | Patch | Apply) -> Object:
    return {"subresource": call.subresource, "dry_run": call.dry_run}


def _deleting(call: Delete | DeleteCollection) -> Object:
    return {
        "uid": call.uid,
        "resource_version": call.resource_version,
        "propagation": None if call.propagation is None else case(call.propagation),
        "grace_period_seconds": call.grace_period,
        "dry_run": call.dry_run,
    }


# What the host answers.


def result(answer: Any) -> Any:
    """The value of a result. Raises its error."""
    if "Err" in answer:
        raise _error(answer["Err"])
    return answer["Ok"]


def value(of: Any) -> Answer:
    """What a call answers: an object, a page, or nothing."""
    if isinstance(of, dict):
        return Page([json.loads(text) for text in of["items"]], of["continue_token"], of["resource_version"])
    return None if of is None else json.loads(of)


def reply(answer: Any) -> Answer | ApiError:
    """The result of an operation of a batch."""
    try:
        of = result(answer)
    except ApiError as error:
        return error
    if of == "Nothing":
        return None
    return value(of["Page"] if "Page" in of else of["Object"])


def http_response(answer: Any) -> HttpResponse:
    """What such a server answers."""
    of = result(answer)
    return HttpResponse(of["status"], headers=of["headers"], data=bytes(of["body"]))


def infos(answer: Any) -> list[tuple[str, dict[str, str], dict[str, str], bool]]:
    """What ``fleet.clusters`` answers."""
    return [(of["name"], dict(of["labels"]), dict(of["properties"]), of["ready"]) for of in result(answer)]


def _error(of: Any) -> ApiError:
    code = "".join(f"-{each.lower()}" if each.isupper() else each for each in of["code"]).removeprefix("-")
    return ApiError.of(code)(
        of["message"],
        http_status=of["http_status"],
        reason=of["reason"],
        details=None if of["details"] is None else json.loads(of["details"]),
        retry_after=None if of["retry_after_ms"] is None else of["retry_after_ms"] / 1000,
    )
