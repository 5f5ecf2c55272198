"""Kinds and keys of objects, which are plain dictionaries. Entry points: :class:`Kind`, :class:`Key`, :func:`new_object`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from . import checks
from .errors import Conflict, Invalid

Object = dict[str, Any]
"""A Kubernetes object as decoded JSON."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Group, version and kind; ``""`` is the core group. Every function that takes one also takes ``"apps/v1/Deployment"``."""

    group: str
    version: str
    kind: str

    def __post_init__(self) -> None:
        checks.fields_of(self, dict.fromkeys(("group", "version", "kind"), checks.text))

    @staticmethod
    def of(kind: Kind | str) -> Kind:
        """Reads ``v1/ConfigMap`` or ``apps/v1/Deployment``; a :class:`Kind` is returned unchanged."""
        if isinstance(kind, Kind):
            return kind
        match checks.text("kind", kind).split("/"):
            case [version, name]:
                return Kind("", version, name)
            case [group, version, name]:
                return Kind(group, version, name)
        raise ValueError(f"{kind!r} is no kind: write it as v1/ConfigMap or apps/v1/Deployment")

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of objects of this kind."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version}/{self.kind}"


FLEET_CLUSTER = Kind("fleet.windlass.dev", "v1alpha1", "Cluster")
"""Clusters as objects of the local cluster, which a guest watches and lists as it does any kind: one for each cluster that a
rule opens. ``metadata.labels`` and ``annotations`` are the cluster's labels and properties, ``spec.name`` is its name in requests
and for ``fleet.open``, ``status`` has ``state``, ``ready`` and ``reason``. The host makes them, and nobody writes them."""


@dataclass(frozen=True, slots=True)
class Key:
    """Namespace and name; the namespace of a cluster-scoped object is ``None``. Every function that takes one also takes
    ``"namespace/name"`` or ``"name"``."""

    namespace: str | None
    name: str

    def __post_init__(self) -> None:
        checks.fields_of(self, {"namespace": checks.optional(checks.text), "name": checks.text})

    @staticmethod
    def of(key: Key | str) -> Key:
        """Reads ``namespace/name`` or, for a cluster-scoped object, ``name``; a :class:`Key` is returned unchanged."""
        if isinstance(key, Key):
            return key
        namespace, slash, name = checks.text("key", key).rpartition("/")
        if not name or "/" in namespace or (slash and not namespace):
            raise ValueError(f"{key!r} is no key: write it as namespace/name, or as name where there is no namespace")
        return Key(namespace or None, name)

    def sibling(self, name: str) -> Key:
        """The key of another object in the same namespace."""
        return Key(self.namespace, name)

    def __str__(self) -> str:
        return self.name if self.namespace is None else f"{self.namespace}/{self.name}"


def kind_of(obj: Mapping[str, Any]) -> Kind:
    """The kind that an object names."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise ValueError("the object has no apiVersion or no kind: windlass.new_object(kind, key) makes one that has")
    group, _, version = api_version.rpartition("/")
    return Kind(group, version, kind)


def key_of(obj: Mapping[str, Any]) -> Key:
    """The namespace and name of an object."""
    metadata = obj.get("metadata") or {}
    name = metadata.get("name")
    if not isinstance(name, str):
        raise ValueError("the object has no metadata.name")
    return Key(metadata.get("namespace") or None, name)


def named(obj: Mapping[str, Any]) -> str:
    """Kind, namespace and name, for people."""
    return f"{obj.get('kind')} {key_of(obj)}"


def new_object(kind: Kind | str, key: Key | str) -> Object:
    """An object with only its kind and key."""
    kind, key = Kind.of(kind), Key.of(key)
    metadata: Object = {"name": key.name}
    if key.namespace is not None:
        metadata["namespace"] = key.namespace
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def owner_reference(owner: Mapping[str, Any], *, controller: bool = True) -> Object:
    """An entry of ``metadata.ownerReferences``: an object that has it is deleted with the owner. The owner must have been read."""
    uid = owner["metadata"].get("uid")
    if uid is None:
        raise ValueError(f"the owner {key_of(owner)} has no metadata.uid: only an object that was read can own another")
    reference: Object = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": uid,
    }
    if controller:
        reference |= {"controller": True, "blockOwnerDeletion": True}
    return reference


def set_owner(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> None:
    """Adds ``owner``, an object that was read, to the owners of an object, unless it is one. The object is deleted after its last owner.
    :class:`windlass.Invalid` for an owner in another namespace, which the garbage collector would take for one that is gone."""
    reference = owner_reference(owner, controller=False)
    _check_namespace(obj, owner)
    metadata: Object = cast(Object, obj).setdefault("metadata", {})
    references: list[Object] = metadata.get("ownerReferences") or []
    if all(each.get("uid") != reference["uid"] for each in references):
        metadata["ownerReferences"] = [*references, reference]


def set_controller(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> None:
    """Makes ``owner`` the controller of an object and keeps its other owners. The object is deleted after ``owner``, and an event
    on the object enqueues ``owner``, which must have been read. :class:`windlass.Conflict` if the object has another controller.
    """
    reference = owner_reference(owner)
    _check_namespace(obj, owner)
    other = controller_of(obj)
    if other is not None and other.get("uid") != reference["uid"]:
        raise Conflict(
            f"{named(obj)} has a controller already: {other.get('kind')} {other.get('name')}",
            reason="AlreadyOwned",
        )
    metadata: Object = cast(Object, obj).setdefault("metadata", {})
    references: list[Object] = metadata.get("ownerReferences") or []
    if any(each.get("uid") == reference["uid"] for each in references):
        references = [reference if each.get("uid") == reference["uid"] else each for each in references]
    else:
        references = [*references, reference]
    metadata["ownerReferences"] = references


def _check_namespace(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> None:
    """The garbage collector looks for an owner in the namespace of what it owns."""
    namespace = key_of(owner).namespace
    if namespace is not None and namespace != key_of(obj).namespace:
        raise Invalid(f"{named(obj)} cannot be owned by {named(owner)}: an owner is of the same namespace, or of none")


def controller_of(obj: Mapping[str, Any]) -> Object | None:
    """The owner reference of the object's controller; ``None`` if it has none."""
    references: list[Object] = (obj.get("metadata") or {}).get("ownerReferences") or []
    return next((reference for reference in references if reference.get("controller")), None)


def is_deleting(obj: Mapping[str, Any]) -> bool:
    """Whether the object is being deleted and waits for its finalizers."""
    return (obj.get("metadata") or {}).get("deletionTimestamp") is not None
