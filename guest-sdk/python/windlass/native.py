"""Runs the guest of this folder as a process for ``windlass dev --native RECONCILER``: ``python -m windlass.native``, under any debugger.
Entry point: :func:`main`.

The process has files, the network and all packages of its Python, which the component has not. A change of the code needs a new process.
"""

from __future__ import annotations

import json
import sys
import tomllib
from bdb import BdbQuit
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import entry, host, wire
from .errors import ApiError, Terminal
from .http_messages import Request as HttpRequest
from .http_messages import Response as HttpResponse
from .objects import Key, Kind, Object
from .operations import Answer, Call, Event, Operation
from .reconciler import Action, Reconciler, Request
from .wire import Lines

_SOCKET = Path(".windlass/native")
"""Has the path of the socket, while ``windlass dev`` runs."""


def main() -> None:
    """Serves ``windlass dev`` until it ends."""
    guest = _guest(Path.cwd())
    try:
        lines = Lines(_SOCKET.read_text().strip())
    except OSError:
        sys.exit(f"nobody calls the guest of {Path.cwd()}: start windlass dev --native RECONCILER first")
    print("windlass dev calls this process now; Ctrl-C ends it", file=sys.stderr)
    try:
        serve(guest, lines)
    except (EOFError, ConnectionError):
        print("windlass dev has ended", file=sys.stderr)
    except KeyboardInterrupt:
        pass


def serve(guest: Reconciler, lines: Lines) -> None:
    """Does what the host asks for, until :class:`EOFError`."""
    host.install(_Host(lines))
    while True:
        task = lines.receive()
        lines.send({"Return": _done(guest, lines, task)})


def _guest(folder: Path) -> Reconciler:
    """The guest of a folder, with the settings and the modules that ``windlass build`` takes."""
    package = next((each for each in (folder, *folder.parents) if (each / "pyproject.toml").is_file()), folder)
    if package == folder:
        settings = _toml(package / "pyproject.toml").get("tool", {}).get("windlass", {})
    else:
        settings = _toml(folder / "windlass.toml")
    sys.path[:0] = [str(each) for each in (folder, package, package / "src")]
    return entry.find(settings.get("entry", "guest"), mapper="mapped-" in settings.get("world", ""))


def _toml(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text()) if file.is_file() else {}


def _done(guest: Reconciler, lines: Lines, task: Any) -> Any:
    """Does a task, and returns its result."""
    try:
        return {"Ok": _do(guest, lines, task)}
    except BdbQuit:  # of a debugger, which ends the process
        raise
    except Exception as error:
        if "Reconcile" not in task:
            return {"Err": entry.failed(error)}
        return {"Err": {"Terminal" if isinstance(error, Terminal) else "Retry": entry.failed(error)}}


def _do(guest: Reconciler, lines: Lines, task: Any) -> Any:
    match task:
        case "Describe":
            return wire.description(entry.describe(guest))
        case {"Reconcile": {"request": asked, "cluster": handle}}:
            request = Request(asked["cluster"], Key(**asked["key"]))
            return _action(entry.reconcile(guest, request, _Client(lines, handle)))
        case {"MapObjects": {"cluster": handle, "kind": kind, "objects": texts}}:
            objects = [json.loads(text) for text in texts]
            requests = entry.map_objects(guest, _Client(lines, handle), Kind(**kind), objects)
            return [wire.request(each) for each in requests]
    raise ValueError(f"this is no task: {task!r}; use the SDK of this version of windlass")


def _action(action: Action) -> Any:
    delay = action.requeue_after_ms
    return "Done" if delay is None else {"RequeueAfterMs": delay}


class _Client:
    """A cluster's handle."""

    def __init__(self, lines: Lines, handle: int) -> None:
        self._lines = lines
        self._handle: int | None = handle

    def name(self) -> str:
        name: str = self._ask("Name")
        return name

    def call(self, call: Call) -> Answer:
        name, arguments = wire.function(call)
        return wire.value(wire.result(self._ask(name, **arguments)))

    def batch(self, operations: Sequence[Operation]) -> list[Answer | ApiError]:
        asked = [wire.operation(each) for each in operations]
        return [wire.reply(each) for each in self._ask("Batch", operations=asked)]

    def record(self, event: Event) -> None:
        self._ask("RecordEvent", event=wire.event(event))

    def close(self) -> None:
        if self._handle is not None:
            self._ask("Drop")
            self._handle = None

    def _ask(self, function: str, **arguments: Any) -> Any:
        if self._handle is None:
            raise RuntimeError("the cluster is closed")
        return self._lines.call(function, cluster=self._handle, **arguments)


class _Host:
    """The functions of the host."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def config(self) -> str:
        config: str = self._lines.call("Config")
        return config

    def now(self) -> str:
        now: str = self._lines.call("Now")
        return now

    def log(self, level: str, message: str, fields: list[tuple[str, str]]) -> None:
        self._lines.call("Log", level=wire.case(level), message=message, fields=fields)

    def clusters(self, labels: str | None) -> list[tuple[str, dict[str, str], dict[str, str], bool]]:
        return wire.infos(self._lines.call("Clusters", label_selector=labels))

    def open(self, name: str) -> _Client:
        return _Client(self._lines, wire.result(self._lines.call("Open", name=name)))

    def batch(self, operations: Sequence[tuple[str, Operation]]) -> list[Answer | ApiError]:
        asked = [(name, wire.operation(each)) for name, each in operations]
        return [wire.reply(each) for each in self._lines.call("BatchFleet", operations=asked)]

    def http(self, request: HttpRequest) -> HttpResponse:
        return wire.http_response(self._lines.call("Http", request=wire.http_request(request)))


if __name__ == "__main__":
    main()
