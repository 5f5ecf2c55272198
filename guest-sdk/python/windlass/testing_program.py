"""The program whose clusters a test uses: ``windlass fleet``, started once for a process. Entry point: :class:`Connection`."""

from __future__ import annotations

import atexit
import os
import subprocess
from functools import cache, cached_property
from typing import Any

from .objects import Object
from .wire import Lines, result

VARIABLE = "WINDLASS_BIN"
"""The environment variable that names the program."""


class Connection:
    """A fleet of its own in the program, and the handles of the run that goes on. Connects when it is used."""

    def __init__(self) -> None:
        self._handles: dict[str, int] = {}
        """By cluster. Empty: no run goes on."""

    def test(self, name: str, /, **arguments: Any) -> Any:
        """Does something for the test. The run that goes on ends first. Raises :class:`ValueError` when it fails: it is a test's own mistake."""
        self.end()
        return self._ask({name: arguments})

    def call(self, cluster: str, name: str, arguments: Object) -> Any:
        """Calls a function of the host in a cluster, by its handle. Begins a run if none goes on."""
        return self._lines.call(name, cluster=self._handle(cluster), **arguments)

    def clusters(self, any_cluster: str, labels: str | None) -> Any:
        """Calls ``fleet.clusters``, in a run of any cluster."""
        self._handle(any_cluster)
        return self._lines.call("Clusters", label_selector=labels)

    def end(self) -> None:
        """Ends the run that goes on: what has lost its owner is deleted then."""
        if self._handles:
            self._handles.clear()
            self._ask("End")

    def _handle(self, cluster: str) -> int:
        if cluster not in self._handles:
            self._handles[cluster] = self._opened(cluster)
        return self._handles[cluster]

    def _opened(self, cluster: str) -> Any:
        if self._handles:
            return result(self._lines.call("Open", name=cluster))
        return self._ask({"Begin": {"cluster": cluster}})

    def _ask(self, asked: Any) -> Any:
        self._lines.send({"Test": asked})
        answer = self._lines.receive()
        if "Err" in answer:
            raise ValueError(answer["Err"])
        return answer["Ok"]

    @cached_property
    def _lines(self) -> Lines:
        return Lines(_socket())


@cache
def _socket() -> str:
    """Starts the program, and returns the path of its socket."""
    program = os.environ.get(VARIABLE) or "windlass"
    try:
        # It ends with its standard input: with this process.
        child = subprocess.Popen([program, "fleet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise RuntimeError(
            f"the clusters of a test are those of the program windlass, and {program} cannot be started: "
            f"{error.strerror}; put it on the PATH, or name it in {VARIABLE}"
        ) from None
    # Waits for its end, and closes the pipes.
    atexit.register(child.communicate)
    assert child.stdout
    path = child.stdout.readline().rstrip("\n")
    if not path:
        raise RuntimeError("windlass fleet did not start: its message is above")
    return path
