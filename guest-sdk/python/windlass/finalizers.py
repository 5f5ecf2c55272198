"""Finalizers of objects. Entry points: :func:`is_deleting`, and the methods of :class:`windlass.Cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from . import checks
from .errors import Invalid, NotFound
from .objects import Object, is_deleting, key_of, kind_of, named
from .operations import Effect, Written

if TYPE_CHECKING:
    from .cluster import Cluster


def has_finalizer(obj: Mapping[str, Any], finalizer: str) -> bool:
    """Whether the object has this finalizer."""
    return finalizer in (obj["metadata"].get("finalizers") or [])


def ensure_finalizer(cluster: Cluster, obj: Mapping[str, Any], finalizer: str) -> Written:
    """See :meth:`windlass.Cluster.ensure_finalizer`."""
    checks.text("finalizer", finalizer)
    if is_deleting(obj) or has_finalizer(obj, finalizer):
        return Written(Effect.UNCHANGED, cast(Object, obj))
    return _write(cluster, obj, [*(obj["metadata"].get("finalizers") or []), finalizer])


def remove_finalizer(cluster: Cluster, obj: Mapping[str, Any], finalizer: str) -> Written:
    """See :meth:`windlass.Cluster.remove_finalizer`."""
    if not has_finalizer(obj, finalizer):
        return Written(Effect.UNCHANGED, cast(Object, obj))
    try:
        return _write(cluster, obj, [each for each in obj["metadata"]["finalizers"] if each != finalizer])
    except NotFound:
        return Written(Effect.UNCHANGED, cast(Object, obj))


def _write(cluster: Cluster, obj: Mapping[str, Any], finalizers: list[str]) -> Written:
    """Writes the list to the version that was read, so that no finalizer of another is lost."""
    version = obj["metadata"].get("resourceVersion")
    if not version:
        raise Invalid(f"{named(obj)} has no resourceVersion: take an object that was read from a cluster")
    patch = {"metadata": {"resourceVersion": version, "finalizers": finalizers}}
    return Written(Effect.UPDATED, cluster.patch(kind_of(obj), key_of(obj), patch))
