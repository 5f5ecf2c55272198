"""Writes that happen only if something differs. Entry points: :func:`ensure`, :func:`create_or_update` and :func:`set_status`."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .errors import Invalid, NotFound
from .objects import Key, Kind, Object, key_of, kind_of, named, new_object
from .operations import Effect, Written

if TYPE_CHECKING:
    from .cluster import Cluster

APPLIED = "windlass.dev/applied"
"""The annotation with the fingerprint of what was applied, and, where the server keeps it in another form, that of the form it keeps."""


def ensure(cluster: Cluster, obj: Mapping[str, Any]) -> Written:
    """See :meth:`windlass.Cluster.ensure`."""
    desired = Desired(obj)
    present = cluster.get(kind_of(desired.fields), key_of(desired.fields))
    if present is not None and desired.held(present):
        return Written(Effect.UNCHANGED, present)
    stored = cluster.apply(desired.next(present), force=True)
    if not desired.held(stored):
        stored = cluster.apply(desired.noted(stored), force=True)
    return Written(Effect.CREATED if present is None else Effect.UPDATED, stored)


class Desired:
    """An object as it should be. A server may keep it in another form: without an empty value, or ``1000m`` as ``1``. So two fingerprints
    decide whether there is something to do: of what was applied, and of what the server has made of these fields."""

    __slots__ = ("_print", "fields")

    def __init__(self, obj: Mapping[str, Any]) -> None:
        self.fields = _applicable(obj)
        self._print = fingerprint(self.fields)

    def held(self, present: Mapping[str, Any]) -> bool:
        """Whether this was applied, and no field of it has changed since."""
        was_applied, kept = self._note(present)
        if kept is None:
            return was_applied and covers(present, self.fields)
        # Only the form that was noted: else a change to one that the server kept before would not be seen.
        return kept == fingerprint(_kept(present, self.fields))

    def was_applied_to(self, present: Mapping[str, Any]) -> bool:
        """Whether this was applied to an object, whatever the object is now."""
        return self._note(present)[0]

    def next(self, present: Mapping[str, Any] | None) -> Object:
        """As it is applied to this object; what the server made of it before it makes again."""
        return self._stamped(self._note(present)[1] if present is not None else None)

    def noted(self, stored: Mapping[str, Any]) -> Object:
        """As it is applied once more, with a note of what the server has made of it, if that is another form."""
        return self._stamped(None if covers(stored, self.fields) else fingerprint(_kept(stored, self.fields)))

    def _note(self, present: Mapping[str, Any]) -> tuple[bool, str | None]:
        """Whether this was applied to an object, and the form that the server kept."""
        note = ((present.get("metadata") or {}).get("annotations") or {}).get(APPLIED)
        print, dash, kept = note.partition("-") if isinstance(note, str) else ("", "", "")
        return print == self._print, kept if dash and print == self._print else None

    def _stamped(self, kept: str | None) -> Object:
        metadata = self.fields["metadata"]
        note = self._print if kept is None else f"{self._print}-{kept}"
        annotations = {**(metadata.get("annotations") or {}), APPLIED: note}
        return {**self.fields, "metadata": {**metadata, "annotations": annotations}}


def _applicable(obj: Mapping[str, Any]) -> Object:
    """A copy of an object without what is the server's to set, and with the data of a Secret in the one form in which it is kept."""
    made = copied(obj)
    metadata = made["metadata"]
    metadata.pop("creationTimestamp", None)
    if isinstance(metadata.get("annotations"), dict):
        metadata["annotations"].pop(APPLIED, None)
    else:  # the note is among them, so that null would not be what the object has
        metadata.pop("annotations", None)
    if made.get("status", ...) in (None, {}):
        del made["status"]
    texts = made.get("stringData")
    is_secret = made.get("apiVersion") == "v1" and made.get("kind") == "Secret"
    if is_secret and isinstance(texts, dict) and all(isinstance(text, str) for text in texts.values()):
        data = {name: base64.b64encode(text.encode(errors="replace")).decode() for name, text in texts.items()}
        before = made.get("data")
        made = {**made, "data": {**(before if isinstance(before, dict) else {}), **data}}
        del made["stringData"]
    return made


def _kept(present: Any, desired: Any) -> Any:
    """What an object has at the fields that are desired."""
    if isinstance(present, dict) and isinstance(desired, dict):
        return {name: _kept(present.get(name), each) for name, each in desired.items()}
    if isinstance(present, list) and isinstance(desired, list) and len(present) == len(desired):
        return [_kept(*both) for both in zip(present, desired, strict=True)]
    return present


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
    try:
        return Written(Effect.UPDATED, cluster.patch(kind, key, patch, subresource="status"))
    except NotFound:
        # A server answers the same for an object that is gone.
        if present is None or cluster.get(kind, key, live=True) is None:
            raise
        raise Invalid(f"{named(present)}: its kind has no subresource status, which its definition has to name") from None


def copied(value: Mapping[str, Any]) -> Object:
    """A copy with the values that JSON has."""
    made: Object = json.loads(json.dumps(value, allow_nan=False))
    return made


def covers(present: Any, desired: Any) -> bool:
    """Whether an object has everything that is desired."""
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
