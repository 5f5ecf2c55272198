"""Objects of a cluster in memory, and how writes change them. Entry point: :class:`Store`."""

from __future__ import annotations

from typing import Any

from .errors import AlreadyExists, Conflict, Invalid, NotFound
from .memory_fields import Part, applied, combined, deleting, finalizers_of, merged, metadata_of, same
from .objects import Key, Kind, Object, kind_of

_TIME = "2026-01-01T00:00:00Z"
"""The time of every creation and deletion, so that tests can compare whole objects."""

_Identity = tuple[str, str, str, str]
"""Group, kind, namespace and name, without the version: an object can be read in several versions."""


class Store:
    """The objects of one cluster. Answers are the stored values themselves: whoever hands them out copies them."""

    def __init__(self) -> None:
        self._objects: dict[_Identity, Object] = {}
        self._applied: dict[tuple[_Identity, Part], Object] = {}
        """The fields that the guest applied last, by object and part; fields that it no longer applies are removed."""
        self.version = 0
        """Grows with every change of any object."""

    def get(self, kind: Kind, key: Key) -> Object | None:
        """An object; ``None`` if there is none."""
        return self._objects.get(_identity(kind, key))

    def all(self) -> list[Object]:
        """Every object, by kind, namespace and name."""
        return [self._objects[identity] for identity in sorted(self._objects)]

    def of_kind(self, kind: Kind) -> list[Object]:
        """Every object of a kind, by namespace and name."""
        wanted = (kind.group, kind.kind)
        return [self._objects[identity] for identity in sorted(self._objects) if identity[:2] == wanted]

    def put(self, obj: Object) -> None:
        """Stores an object of the test, without preconditions."""
        key = _key(obj)
        if key is None:
            raise ValueError(f"an object to put has metadata.name: {obj}")
        identity = _identity(kind_of(obj), key)
        stored = self._objects.get(identity)
        if stored is not None:
            obj = _deleted_as(stored, {**stored, **obj, "metadata": merged(stored["metadata"], obj["metadata"])})
        self._save(identity, obj)

    def create(self, kind: Kind, obj: Object, *, dry: bool) -> Object:
        """Stores a new object."""
        key = _needed_key(obj)
        identity = _identity(kind, key)
        if identity in self._objects:
            raise AlreadyExists(f"{kind} {key} already exists", http_status=409)
        if _given(obj, "resourceVersion") is not None:
            raise _invalid("metadata.resourceVersion must not be set on objects to be created")
        return self._save_unless(dry, identity, combined(None, _with_metadata(obj, uid=None), "main"))

    def update(self, kind: Kind, obj: Object, part: Part, *, dry: bool) -> Object:
        """Replaces the main part or the status; the other keeps what is stored."""
        key = _needed_key(obj)
        stored = self._stored(kind, key)
        _check_meant(f"{kind} {key}", stored, obj)
        return self._save_unless(dry, _identity(kind, key), combined(stored, obj, part))

    def patch(self, kind: Kind, key: Key, patch: Any, part: Part, *, dry: bool) -> Object:
        """Changes the main part or the status by a merge patch."""
        return self.update(kind, merged(self._stored(kind, key), patch), part, dry=dry)

    def apply(self, kind: Kind, obj: Object, part: Part, *, dry: bool) -> Object:
        """Server-side apply. There is one applier, so nothing is a conflict."""
        key = _needed_key(obj)
        identity = _identity(kind, key)
        stored = self._objects.get(identity)
        if stored is None and part == "status":
            raise _not_found(kind, key)
        _check_meant(f"{kind} {key}", stored, obj)
        following = applied(stored, self._applied.get((identity, part)), obj)
        saved = self._save_unless(dry, identity, combined(stored, following, part))
        if identity in self._objects and not dry:
            self._applied[identity, part] = obj
        return saved

    def delete(self, kind: Kind, key: Key, *, uid: str | None, resource_version: str | None, dry: bool) -> None:
        """Deletes an object if it is the one that the preconditions name."""
        metadata = self._stored(kind, key)["metadata"]
        for wanted, field in ((uid, "uid"), (resource_version, "resourceVersion")):
            if wanted is not None and metadata.get(field) != wanted:
                raise _conflict(f"{kind} {key} is not the object that the precondition names")
        if not dry:
            self.remove(kind, key)

    def remove(self, kind: Kind, key: Key) -> None:
        """Deletes an object, or marks it for deletion if finalizers hold it. Then deletes what has no other owner."""
        self._remove(_identity(kind, key))

    def remove_all(self, objects: list[Object]) -> None:
        """As :meth:`remove`, for stored objects."""
        for obj in objects:
            self.remove(kind_of(obj), _needed_key(obj))

    def _remove(self, identity: _Identity) -> None:
        obj = self._objects.get(identity)
        if obj is None:
            return
        if finalizers_of(obj):
            if not deleting(obj):
                self._save(identity, _with_metadata(obj, deletionTimestamp=_TIME))
            return
        del self._objects[identity]
        self._applied.pop((identity, "main"), None)
        self._applied.pop((identity, "status"), None)
        self.version += 1
        self._collect(obj["metadata"]["uid"])

    def _collect(self, uid: str) -> None:
        """Takes an owner that is gone out of all objects, and deletes those that it was the last one of."""
        for identity in sorted(self._objects):
            # As it is now: a removal before may have changed it, or taken it away.
            obj = self._objects.get(identity, {})
            owners = metadata_of(obj).get("ownerReferences")
            if not isinstance(owners, list):
                continue
            others = [owner for owner in owners if not isinstance(owner, dict) or owner.get("uid") != uid]
            if len(others) == len(owners):
                continue
            if others:
                self._save(identity, _with_metadata(obj, ownerReferences=others))
                continue
            metadata = {field: value for field, value in obj["metadata"].items() if field != "ownerReferences"}
            self._save(identity, {**obj, "metadata": metadata})
            self._remove(identity)

    def _stored(self, kind: Kind, key: Key) -> Object:
        stored = self.get(kind, key)
        if stored is None:
            raise _not_found(kind, key)
        return stored

    def _save_unless(self, dry: bool, identity: _Identity, obj: Object) -> Object:
        """The end of a guest's write."""
        stored = self._objects.get(identity)
        obj = _deleted_as(stored, obj)
        if deleting(stored) and any(name not in finalizers_of(stored) for name in finalizers_of(obj)):
            message = "metadata.finalizers: no new finalizers can be added if the object is being deleted"
            raise _invalid(message)
        return obj if dry else self._save(identity, obj)

    def _save(self, identity: _Identity, obj: Object) -> Object:
        """Stores an object with the metadata that a server sets. An unchanged object keeps its version."""
        stored = self._objects.get(identity)
        if stored is None:
            named = obj["metadata"].get("uid")
            uid = named if isinstance(named, str) else f"00000000-0000-4000-8000-{self.version + 1:012}"
            obj = _with_metadata(obj, uid=uid, creationTimestamp=_TIME, generation=1)
        else:
            kept = {field: stored["metadata"][field] for field in ("uid", "creationTimestamp", "resourceVersion")}
            counts = not same(_counted(stored), _counted(obj)) or deleting(obj) != deleting(stored)
            obj = _with_metadata(obj, **kept, generation=stored["metadata"]["generation"] + counts)
            if same(stored, obj):
                return obj
        self.version += 1
        obj = _with_metadata(obj, resourceVersion=str(self.version))
        self._objects[identity] = obj
        if deleting(obj) and not finalizers_of(obj):
            self._remove(identity)
        return obj


def _with_metadata(obj: Object, **fields: Any) -> Object:
    """A copy of an object with these fields of its metadata."""
    return {**obj, "metadata": {**obj["metadata"], **fields}}


def _deleted_as(stored: Object | None, obj: Object) -> Object:
    """The object with the time of deletion of the stored one: only a server sets it."""
    metadata = {field: value for field, value in obj["metadata"].items() if field != "deletionTimestamp"}
    at = metadata_of(stored).get("deletionTimestamp")
    return {**obj, "metadata": metadata if at is None else {**metadata, "deletionTimestamp": at}}


def _given(obj: Object, field: str) -> Any:
    """A field of the metadata that a write names; an empty one is none."""
    return obj["metadata"].get(field) or None


def _check_meant(name: str, stored: Object | None, obj: Object) -> None:
    """Refuses a write of another object, or of another version, than the stored one. There may be none."""
    uid, version = _given(obj, "uid"), _given(obj, "resourceVersion")
    if uid is not None and uid != metadata_of(stored).get("uid"):
        raise _conflict(f"{name} is not the object with the uid {uid}")
    if version is not None and stored is not None and version != stored["metadata"]["resourceVersion"]:
        raise _conflict(f"{name} has changed: read it again")


def _counted(obj: Object) -> Object:
    """The part whose changes ``metadata.generation`` counts."""
    return {field: value for field, value in obj.items() if field not in ("metadata", "status")}


def _identity(kind: Kind, key: Key) -> _Identity:
    # The empty namespace is first in the order, and is the key of no other object.
    return kind.group, kind.kind, key.namespace or "", key.name


def _key(obj: Any) -> Key | None:
    metadata = metadata_of(obj)
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not name:
        return None
    return Key(namespace if isinstance(namespace, str) and namespace else None, name)


def _needed_key(obj: Any) -> Key:
    key = _key(obj)
    if key is None:
        raise _invalid("metadata.name is required")
    return key


def _invalid(message: str) -> Invalid:
    return Invalid(message, http_status=422)


def _conflict(message: str) -> Conflict:
    return Conflict(message, http_status=409)


def _not_found(kind: Kind, key: Key) -> NotFound:
    return NotFound(f"{kind} {key} not found", http_status=404)
