"""The guest that a project names, and how its calls end: the same inside a component and in a process of its own. Entry point:
:func:`find`."""

from __future__ import annotations

import importlib
import inspect

from . import checks
from .cluster import Cluster
from .description import Description
from .errors import ApiError, HttpStatusError, Retry, Terminal
from .host import Client
from .located import frames, located
from .objects import Kind, Object
from .reconciler import DONE, Action, Mapper, Reconciler, Request, run


def find(entry: str, *, mapper: bool) -> Reconciler:
    """The guest that ``entry`` names: ``module`` or ``module:Class``."""
    name, _, wanted = entry.partition(":")
    module = importlib.import_module(name)
    if wanted:
        found = [getattr(module, wanted)]
    else:
        local = [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == name]
        found = [each for each in local if issubclass(each, Reconciler) and not inspect.isabstract(each)]
    if len(found) != 1 or not issubclass(found[0], Reconciler):
        names = ", ".join(each.__name__ for each in found) or "none"
        raise TypeError(
            f'expected one class derived from windlass.Reconciler in {name}, found {names}: name it as entry = "{name}:Class"'
        )
    guest: Reconciler = found[0]()
    if mapper and not isinstance(guest, Mapper):
        raise TypeError(
            f"{type(guest).__name__} is no windlass.Mapper, which the world asks for: derive it, or choose another world"
        )
    return guest


def describe(guest: Reconciler) -> Description:
    """Runs ``describe``."""
    description = guest.describe()
    if not isinstance(description, Description):
        raise TypeError(f"describe answered {description!r}: answer a windlass.Description")
    return description


def reconcile(guest: Reconciler, request: Request, client: Client) -> Action:
    """Runs ``reconcile``, and closes the cluster."""
    with Cluster(client) as cluster:
        action = run(guest, request, cluster)
    if action is None:
        return DONE
    if not isinstance(action, Action):
        raise TypeError(f"reconcile answered {action!r}: answer nothing, windlass.DONE or windlass.requeue_after(…)")
    return action


def map_objects(guest: Reconciler, client: Client, kind: Kind, objects: list[Object]) -> list[Request]:
    """Runs ``map``, and closes the cluster."""
    assert isinstance(guest, Mapper)
    with Cluster(client) as cluster:
        requests = list(guest.map(cluster, kind, objects))
    for each in requests:
        if not isinstance(each, Request):
            raise TypeError(f"map answered {each!r}: answer each request as a windlass.Request")
    return requests


def failed(error: Exception) -> str:
    """The message of a failure: with where it was raised, unless the exception is one by which runs end."""
    if isinstance(error, (ApiError, HttpStatusError)):
        return text("\n".join([str(error), *frames(error)]))
    if isinstance(error, (Retry, Terminal)):
        return text(error)
    return text(located(error))


def text(value: object) -> str:
    """Text that can be passed to the host."""
    return checks.well_formed(str(value))
