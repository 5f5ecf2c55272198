"""The SDK inside a component, on top of the contract's generated modules. Entry point: :func:`exports`.

Imported only by the module that ``windlass build`` writes; ``wit_world`` exists only there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from componentize_py_types import Err, Ok
from wit_world.exports import reconciler as wit_reconciler
from wit_world.imports import client as wit
from wit_world.imports import clock as wit_clock
from wit_world.imports import config as wit_config
from wit_world.imports import log as wit_log
from wit_world.imports import types as wit_types

from . import entry as guests
from . import host, http_messages
from .description import Description, Enqueue, Watch
from .entry import failed, text
from .errors import ApiError, Terminal
from .objects import Key, Kind, kind_of
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
from .reconciler import Action, Request

try:
    from wit_world.imports import fleet as wit_fleet
except ImportError:  # a world without it
    wit_fleet = None  # type: ignore[assignment]

try:
    from wit_world.imports import http as wit_http
except ImportError:  # a world without it
    wit_http = None  # type: ignore[assignment]


def exports(entry: str, *, mapper: bool) -> tuple[type, type | None]:
    """The classes of the contract's exports, for the guest that ``entry`` names: ``module`` or ``module:Class``."""
    guest = guests.find(entry, mapper=mapper)

    class ReconcilerExport:
        """The export ``reconciler``."""

        def describe(self) -> Any:
            host.install(_HOST)
            try:
                return _description(guests.describe(guest))
            except Exception as error:
                raise Err(failed(error)) from None

        def reconcile(self, request: Any, cluster: Any) -> Any:
            host.install(_HOST)
            try:
                return _action(guests.reconcile(guest, _request(request), _Client(cluster)))
            except Terminal as error:
                raise Err(wit_types.Failure_Terminal(text(error))) from None
            except Exception as error:
                raise Err(wit_types.Failure_Retry(failed(error))) from None

    class MapperExport:
        """The export ``mapper``."""

        def map_objects(self, cluster: Any, kind: Any, objects: list[str]) -> list[Any]:
            host.install(_HOST)
            try:
                decoded = [json.loads(text) for text in objects]
                of = Kind(kind.group, kind.version, kind.kind)
                return [_wit_request(each) for each in guests.map_objects(guest, _Client(cluster), of, decoded)]
            except Exception as error:
                raise Err(failed(error)) from None

    return ReconcilerExport, MapperExport if mapper else None


# Results of the guest.


def _action(action: Action) -> Any:
    delay = action.requeue_after_ms
    return wit_types.Action_Done() if delay is None else wit_types.Action_RequeueAfterMs(delay)


def _wit_request(request: Request) -> Any:
    return wit_types.Request(request.cluster, _key(request.key))


def _request(request: Any) -> Request:
    return Request(request.cluster, Key(request.key.namespace, request.key.name))


def _description(description: Description) -> Any:
    primary = description.primary
    return wit_reconciler.Description(
        description.title,
        None if primary is None else _kind(primary),
        [_watch(watch) for watch in description.watches],
        [
            wit_reconciler.Index(
                _kind(index.kind), index.name, index.path, index.namespace_path, list(index.options.items())
            )
            for index in description.indexes
        ],
        list(description.options.items()),
    )


def _watch(watch: Watch) -> Any:
    return wit_reconciler.Watch(
        _kind(watch.kind),
        _enqueue(watch.enqueue),
        _case(wit_reconciler.ClusterScope, watch.clusters),
        watch.labels,
        watch.fields,
        [_case(wit_reconciler.Change, change) for change in watch.changes],
        watch.metadata_only,
        list(watch.options.items()),
    )


_ENQUEUE: dict[Enqueue, Callable[[], Any]] = {
    Enqueue.PRIMARY: wit_reconciler.Enqueue_Primary,
    Enqueue.CONTROLLER_OWNER: wit_reconciler.Enqueue_ControllerOwner,
    Enqueue.ANY_OWNER: wit_reconciler.Enqueue_AnyOwner,
    Enqueue.SAME_NAME: wit_reconciler.Enqueue_SameName,
    Enqueue.MAPPED: wit_reconciler.Enqueue_Mapped,
}


def _enqueue(enqueue: Enqueue) -> Any:
    if enqueue.index is not None:
        return wit_reconciler.Enqueue_ByIndex(enqueue.index)
    return _ENQUEUE[enqueue]()


# Calls of the guest.


def _case(enum: Any, word: str) -> Any:
    """The case of an enum that the contract calls ``word``."""
    try:
        return enum[word.replace("-", "_").upper()]
    except KeyError:
        words = ", ".join(case.name.lower().replace("_", "-") for case in enum)
        raise ValueError(f"{word!r} is none of {words}") from None


def _kind(kind: Kind | str) -> Any:
    kind = Kind.of(kind)
    return wit_types.GroupVersionKind(kind.group, kind.version, kind.kind)


def _key(key: Key | str) -> Any:
    key = Key.of(key)
    return wit_types.ObjectKey(key.namespace, key.name)


def _mode(live: bool) -> Any:
    return wit.ReadMode.LIVE if live else wit.ReadMode.CACHED


def _projection(metadata_only: bool) -> Any:
    return wit.Projection.METADATA if metadata_only else wit.Projection.FULL


def _encode(value: Any) -> str:
    # ASCII, so that a lone surrogate cannot trap; NaN is no JSON.
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _arguments(operation: Call) -> tuple[Any, ...]:
    """The arguments of the contract's function for an operation."""
    match operation:
        case Get(kind, key):
            projection = _projection(operation.metadata_only)
            return _kind(kind), _key(key), wit.GetOptions(_mode(operation.live), projection, operation.subresource)
        case List(kind):
            return _kind(kind), wit.ListOptions(
                operation.namespace,
                operation.labels,
                operation.fields,
                operation.index,
                operation.limit,
                operation.continue_token,
                _mode(operation.live),
                _projection(operation.metadata_only),
            )
        case Create(obj) | Update(obj):
            return _kind(kind_of(obj)), _encode(obj), wit.WriteOptions(operation.subresource, operation.dry_run)
        case Patch(kind, key, patch):
            how = _case(wit.PatchType, operation.type)
            options = wit.WriteOptions(operation.subresource, operation.dry_run)
            return _kind(kind), _key(key), how, _encode(patch), options
        case Apply(obj):
            forced = wit.ApplyOptions(operation.subresource, operation.force, operation.dry_run)
            return _kind(kind_of(obj)), _encode(obj), forced
        case Delete(kind, key):
            return _kind(kind), _key(key), _delete_options(operation)
        case DeleteCollection(kind):
            selection = wit.Selection(operation.namespace, operation.labels, operation.fields)
            return _kind(kind), selection, _delete_options(operation)
    raise TypeError(f"{operation!r} is no call")


def _delete_options(operation: Delete | DeleteCollection) -> Any:
    propagation = operation.propagation
    case = None if propagation is None else _case(wit.Propagation, propagation)
    return wit.DeleteOptions(operation.uid, operation.resource_version, case, operation.grace_period, operation.dry_run)


_METHODS = {
    Get: "get",
    List: "list",
    Create: "create",
    Update: "update",
    Patch: "patch",
    Apply: "apply",
    Delete: "delete",
    DeleteCollection: "delete_collection",
}

_IN_BATCH = {
    Get: wit.Operation_Get,
    List: wit.Operation_List,
    Create: wit.Operation_Create,
    Update: wit.Operation_Update,
    Patch: wit.Operation_Patch,
    Apply: wit.Operation_Apply,
    Delete: wit.Operation_Delete,
}


def _operation(operation: Operation) -> Any:
    case = _IN_BATCH.get(type(operation))
    if case is None:
        raise TypeError(f"{operation!r} is nothing for a batch")
    return case(_arguments(operation))


# Results of the host.


def _error(error: Any) -> ApiError:
    code = error.code.name.lower().replace("_", "-")
    return ApiError.of(code)(
        error.message,
        http_status=error.http_status,
        reason=error.reason,
        details=None if error.details is None else json.loads(error.details),
        retry_after=None if error.retry_after_ms is None else error.retry_after_ms / 1000,
    )


def _page(page: Any) -> Page:
    return Page([json.loads(text) for text in page.items], page.continue_token, page.resource_version)


def _reply(result: Any) -> Answer | ApiError:
    if not isinstance(result, Ok):
        return _error(result.value)
    match result.value:
        case wit.Reply_Object(text):
            made: Answer = json.loads(text)
            return made
        case wit.Reply_Page(page):
            return _page(page)
    return None


def _raise(error: Any) -> NoReturn:
    """Raises the exception for an ``Err`` of the contract, without the ``Err`` in its traceback."""
    raise _error(error.value) from None


class _Client:
    """A cluster's handle."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def _open(self) -> Any:
        if self._handle is None:
            raise RuntimeError("the cluster is closed")
        return self._handle

    def name(self) -> str:
        name: str = self._open().name()
        return name

    def call(self, call: Call) -> Answer:
        arguments = _arguments(call)
        try:
            answer = getattr(self._open(), _METHODS[type(call)])(*arguments)
        except Err as error:
            _raise(error)
        if isinstance(call, List):
            return _page(answer)
        return None if answer is None else json.loads(answer)

    def batch(self, operations: Sequence[Operation]) -> list[Answer | ApiError]:
        return [_reply(result) for result in self._open().batch([_operation(each) for each in operations])]

    def record(self, event: Event) -> None:
        loudness = wit.EventType.WARNING if event.warning else wit.EventType.NORMAL
        texts = text(event.reason), text(event.action), text(event.note)
        self._open().record_event(wit.Event(_kind(event.kind), _key(event.key), loudness, *texts))

    def close(self) -> None:
        if self._handle is not None:
            self._handle.__exit__(None, None, None)
            self._handle = None


class _Host:
    """The world's imports."""

    def config(self) -> str:
        return wit_config.get()

    def now(self) -> str:
        return wit_clock.now()

    def log(self, level: str, message: str, fields: list[tuple[str, str]]) -> None:
        wit_log.write(_case(wit_log.Level, level), text(message), [(text(key), text(value)) for key, value in fields])

    def clusters(self, labels: str | None) -> list[tuple[str, dict[str, str], dict[str, str], bool]]:
        try:
            known = _fleet().clusters(labels)
        except Err as error:
            _raise(error)
        return [(each.name, dict(each.labels), dict(each.properties), each.ready) for each in known]

    def open(self, name: str) -> _Client:
        try:
            return _Client(_fleet().open(name))
        except Err as error:
            _raise(error)

    def batch(self, operations: Sequence[tuple[str, Operation]]) -> list[Answer | ApiError]:
        asked = [(name, _operation(operation)) for name, operation in operations]
        return [_reply(result) for result in _fleet().batch(asked)]

    def http(self, request: http_messages.Request) -> http_messages.Response:
        if wit_http is None:
            raise RuntimeError('this guest\'s world has no http: set [tool.windlass] world = "http-reconcile"')
        headers = list(request.headers.items())
        asked = wit_http.Request(request.method, request.url, headers, request.body, request.timeout_ms, [])
        try:
            answer = wit_http.send(asked)
        except Err as error:
            _raise(error)
        return http_messages.Response(answer.status, headers=answer.headers, data=answer.body)


def _fleet() -> Any:
    if wit_fleet is None:
        raise RuntimeError('this guest\'s world has no fleet: set [tool.windlass] world = "fleet-reconcile"')
    return wit_fleet


_HOST = _Host()
