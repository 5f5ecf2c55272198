"""Conditions in the status of an object. Entry points: :func:`condition` and :func:`set_condition`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from . import checks
from .host import current
from .objects import Object

Status = Literal["True", "False", "Unknown"]
"""The status of a condition."""


def condition(obj: Mapping[str, Any], type: str) -> Object | None:
    """The condition of this type in ``status.conditions``; ``None`` if there is none."""
    conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each.get("type") == type), None)


def set_condition(
    obj: Mapping[str, Any],
    type: str,
    status: bool | Status,
    reason: str,
    message: str = "",
    *,
    observed_generation: int | None = None,
) -> bool:
    """Sets a condition in the ``status.conditions`` of an object that was read, and returns whether that changed anything. Write
    it with :meth:`windlass.Cluster.set_status`.

    ``reason`` is one CamelCase word. ``observed_generation`` is by default the object's ``metadata.generation``. The transition
    time changes only if the status does; the order of the conditions, and fields unknown here, are kept.
    """
    word = str(status) if isinstance(status, bool) else status
    wanted: Object = {
        "type": checks.text("type", type),
        "status": checks.one_of("True", "False", "Unknown")("status", word),
    }
    generation = obj["metadata"].get("generation") if observed_generation is None else observed_generation
    if generation is not None:
        wanted["observedGeneration"] = checks.whole("observed_generation", generation)
    wanted |= {"reason": checks.text("reason", reason), "message": checks.text("message", message)}
    before = condition(obj, type)
    found = before or {}
    since = found.get("lastTransitionTime") if found.get("status") == wanted["status"] else None
    after = {**found, **wanted, "lastTransitionTime": since or _moment()}
    if after == before:
        return False
    rest = obj.get("status") or {}
    conditions = rest.get("conditions") or []
    following = [*conditions, after] if before is None else [after if each is before else each for each in conditions]
    cast(Object, obj)["status"] = {**rest, "conditions": following}
    return True


def _moment() -> str:
    """The time in whole seconds, as conditions have it."""
    return current().now()[:19] + "Z"
