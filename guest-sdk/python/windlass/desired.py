"""Writes that happen only if something differs. Entry points: :func:`ensure`, :func:`create_or_update` and :func:`set_status`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .objects import Key, Kind, Object, key_of, kind_of, new_object
from .operations import Effect, Written

if TYPE_CHECKING:
    from .cluster import Cluster

APPLIED = "windlass.dev/applied"
"""The annotation with the fingerprint of what was applied: by it a field is found that is no longer desired."""


def ensure(cluster: Cluster, obj: Mapping[str, Any]) -> Written:
    """See :meth:`windlass.Cluster.ensure`."""
    desired = stamped(obj)
    present = cluster.get(kind_of(desired), key_of(desired))
    if present is not None and covers(present, desired):
        return Written(Effect.UNCHANGED, present)
    stored = cluster.apply(desired, force=True)
    if present is None:
        return Written(Effect.CREATED, stored)
    same = present["metadata"].get("resourceVersion") == stored["metadata"].get("resourceVersion")
    return Written(Effect.UNCHANGED if same else Effect.UPDATED, stored)


def create_or_update(cluster: Cluster, kind: Kind | str, key: Key | str, change: Callable[[Object], object]) -> Written:
    """See :meth:`windlass.Cluster.create_or_update`."""
    present = cluster.get(kind, key)
    obj = new_object(kind, key) if present is None else copied(present)
    change(obj)
    if present is None:
        return Written(Effect.CREATED, cluster.create(obj))
    if copied(obj) == present:
        return Written(Effect.UNCHANGED, present)
    return Written(Effect.UPDATED, cluster.update(obj))


def set_status(cluster: Cluster, kind: Kind | str, key: Key | str, status: Mapping[str, Any]) -> Written:
    """See :meth:`windlass.Cluster.set_status`."""
    return write_status(cluster, kind, key, cluster.get(kind, key), status)


def write_status(
    cluster: Cluster, kind: Kind | str, key: Key | str, present: Object | None, status: Mapping[str, Any]
) -> Written:
    """Patches what differs from an object that was read."""
    changed = _difference((present or {}).get("status") or {}, copied(status))
    if present is not None and not changed:
        return Written(Effect.UNCHANGED, present)
    patch: Object = {"status": changed}
    version = present and present["metadata"].get("resourceVersion")
    if version:
        patch = {"metadata": {"resourceVersion": version}} | patch
    return Written(Effect.UPDATED, cluster.patch(kind, key, patch, subresource="status"))


def stamped(obj: Mapping[str, Any]) -> Object:
    """A copy of an object with the fingerprint of its fields."""
    desired = copied(obj)
    annotations = desired["metadata"].get("annotations") or {}
    desired["metadata"]["annotations"] = {**annotations, APPLIED: fingerprint(desired)}
    return desired


def copied(value: Mapping[str, Any]) -> Object:
    """A copy with the values that JSON has."""
    made: Object = json.loads(json.dumps(value, allow_nan=False))
    return made


def covers(present: Any, desired: Any) -> bool:
    """Whether an object has everything that is desired. The fingerprint is a field like another, so it was applied with the same
    fields."""
    if isinstance(desired, dict):
        return isinstance(present, dict) and all(covers(present.get(name), each) for name, each in desired.items())
    if isinstance(desired, list):
        same = isinstance(present, list) and len(present) == len(desired)
        return same and all(covers(one, other) for one, other in zip(present, desired, strict=True))
    return _same(present, desired)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal. For Python, True is 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _difference(present: Mapping[str, Any], desired: Mapping[str, Any]) -> Object:
    """The merge patch that gives ``present`` the fields of ``desired``."""
    patch: Object = {}
    for name, value in desired.items():
        before = present.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := _difference(before, value):
                patch[name] = inner
        elif not _same(before, value):
            patch[name] = value
    return patch


def fingerprint(value: Any) -> str:
    """FNV-1a over the value, with sorted names: the same for equal values, in every language's SDK."""
    code = 0x811C9DC5
    for byte in _walk(value):
        code = (code ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{code:08x}"


def _walk(value: Any) -> bytes:
    match value:
        case None:
            return b"n"
        case bool():
            return b"t" if value else b"f"
        case str():
            return b'"' + value.encode(errors="replace") + b"\0"
        case int() | float():
            return f"#{value!r};".encode()
        case list():
            return b"[" + b"".join(map(_walk, value)) + b"]"
    return b"{" + b"".join(_walk(name) + _walk(value[name]) for name in sorted(value)) + b"}"
