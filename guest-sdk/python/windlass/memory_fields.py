"""How writes change the fields of an object in memory. Entry points: :func:`merged`, :func:`applied` and
:func:`combined`.

None of them changes its arguments. Results may share parts with them.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from .objects import Object

Part = Literal["main", "status"]
"""Whether a write is to the object or to its status."""


def plain(value: Any) -> Any:
    """A copy with the values that JSON has."""
    return json.loads(json.dumps(value, allow_nan=False))


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON. For Python, True is 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def metadata_of(obj: Any) -> Object:
    """The metadata of an object, empty if it has none."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def deleting(obj: Any) -> bool:
    """Whether an object is being deleted."""
    return metadata_of(obj).get("deletionTimestamp") is not None


def finalizers_of(obj: Any) -> list[Any]:
    """The finalizers of an object."""
    finalizers = metadata_of(obj).get("finalizers")
    return finalizers if isinstance(finalizers, list) else []


def merged(target: Any, patch: Any) -> Any:
    """The target after a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    following = dict(target) if isinstance(target, dict) else {}
    for field, change in patch.items():
        if change is None:
            following.pop(field, None)
        else:
            following[field] = merged(following.get(field), change)
    return following


def applied(stored: Any, before: Any, now: Any) -> Any:
    """Server-side apply for one applier: applies ``now`` to ``stored``, where ``before`` was applied last. Fields of
    ``now`` are set, fields of ``before`` that ``now`` lacks are removed, all others stay. Lists are replaced whole."""
    if not isinstance(stored, dict) or not isinstance(now, dict):
        return now
    return _applied_fields(stored, before if isinstance(before, dict) else {}, now)


def _applied_fields(stored: Object, before: Object, now: Object) -> Object:
    following = dict(stored)
    for field, old in before.items():
        if field in now:
            continue
        # Only the applied fields of an object are removed; fields that other writers set stay.
        present = following.get(field)
        if isinstance(present, dict) and isinstance(old, dict):
            rest = _applied_fields(present, old, {})
            if rest:
                following[field] = rest
                continue
        following.pop(field, None)
    for field, value in now.items():
        following[field] = applied(following.get(field), before.get(field), value)
    return following


def combined(stored: Object | None, given: Object, part: Part) -> Object:
    """The stored object with one part replaced: its status, or the rest. There may be none."""
    there = {} if stored is None else stored
    base, source = (given, there) if part == "main" else (there, given)
    rest = {field: value for field, value in base.items() if field != "status"}
    status = source.get("status")
    return rest if status is None else {**rest, "status": status}
