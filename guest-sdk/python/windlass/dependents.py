"""The objects that a primary object should have. Entry point: :class:`Dependents`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from . import checks
from .cluster import Cluster
from .conditions import set_condition
from .desired import copied, covers, stamped, write_status
from .description import Enqueue, Index, Watch
from .errors import ApiError, Invalid, NotFound
from .finalizers import has_finalizer
from .objects import Kind, Object, is_deleting, key_of, kind_of, named, set_controller
from .operations import Apply, Delete, List
from .ready import readiness
from .reconciler import DONE, Action, requeue_after

OWNER = "windlass.dev/owner"
"""The label with the owner's uid, and the index of it."""


@dataclass(frozen=True, slots=True)
class Dependents:
    """The kinds of the objects that primary objects should have. A dependent of the same namespace, or of a cluster-scoped primary
    object, is owned by it; another one has only the label ``windlass.dev/owner``. ::

        PARTS = windlass.Dependents(["apps/v1/Deployment", "v1/Service"])

        class Guest(windlass.Reconciler):
            def describe(self):
                watches = [windlass.Watch("example.com/v1/Website"), *PARTS.watches]
                return windlass.Description("runs websites", watches=watches, indexes=PARTS.indexes)

            def reconcile(self, request, cluster):
                site = cluster.get("example.com/v1/Website", request.key)
                return site and PARTS.reconcile(cluster, site, [deployment(site), service(site)])
    """

    kinds: Sequence[Kind | str]
    """An object of one of these kinds that is no longer desired is deleted."""
    finalizer: str | None = field(default=None, kw_only=True)
    """Held by the primary object until its deletion is done. Needed for clean-ups, and for dependents that it cannot own."""
    ready: Callable[[Object], str | None] = field(default=readiness, kw_only=True)
    """Why an object is not ready; nothing if it is."""
    recheck: timedelta | float = field(default=10, kw_only=True)
    """When to look again (seconds, or a timedelta) while something is not ready and no event comes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(Kind.of(kind) for kind in self.kinds))

    @property
    def watches(self) -> list[Watch]:
        """For the description: an event on a dependent asks for its owner."""
        return [Watch(kind, Enqueue.CONTROLLER_OWNER) for kind in self.kinds]

    @property
    def indexes(self) -> list[Index]:
        """For the description."""
        return [Index(kind, OWNER, f"metadata.labels['{OWNER}']") for kind in self.kinds]

    def reconcile(
        self,
        cluster: Cluster,
        primary: Object,
        desired: Iterable[Mapping[str, Any]],
        *,
        status: Mapping[str, Any] | None = None,
        cleanup: Callable[[], object] | None = None,
    ) -> Action:
        """Applies the desired objects, deletes those that are no longer desired, and sets the conditions ``Ready`` and
        ``Progressing`` of the primary object, which must have been read. If the primary object is being deleted, it calls ``cleanup``,
        deletes the dependents that are not owned, and removes the finalizer.

        ``status`` are further fields of the primary object's status. ``cleanup`` may raise :class:`windlass.NotReady`; it may run
        several times."""
        if is_deleting(primary):
            return self._end(cluster, primary, cleanup)
        return self._keep(cluster, primary, desired, status or {})

    def _keep(
        self, cluster: Cluster, primary: Object, desired: Iterable[Mapping[str, Any]], status: Mapping[str, Any]
    ) -> Action:
        wanted = {_identity(made): made for made in (self._prepared(primary, obj) for obj in desired)}
        if self.finalizer is not None:
            cluster.ensure_finalizer(primary, self.finalizer)
        present = {_identity(obj): obj for obj in self._of_owner(cluster, primary)}

        missing = [obj for name, obj in wanted.items() if name not in present or not covers(present[name], obj)]
        results = cluster.batch([Apply(obj, force=True) for obj in missing], return_errors=True) if missing else []
        for obj, result in zip(missing, results, strict=True):
            if isinstance(result, ApiError):
                _report(cluster, primary, "ApplyFailed", f"{named(obj)}: {result}")
                raise result
            present[_identity(obj)] = result

        _remove(cluster, [obj for name, obj in present.items() if name not in wanted])

        reasons = ((obj, self.ready(present[name])) for name, obj in wanted.items())
        waiting = [f"{named(obj)}: {why}" for obj, why in reasons if why]
        if not waiting:
            _report(cluster, primary, "Ready", "all dependents are ready", status)
            return DONE
        _report(cluster, primary, "NotReady", f"waits for {_summary(waiting)}", status)
        return requeue_after(self.recheck)

    def _end(self, cluster: Cluster, primary: Object, cleanup: Callable[[], object] | None) -> Action:
        """Ends the dependents. The garbage collector takes those that the primary object owns."""
        if self.finalizer is None or not has_finalizer(primary, self.finalizer):
            return DONE
        if cleanup is not None:
            cleanup()
        left = self._not_owned(cluster, primary)
        if _remove(cluster, left):
            left = self._not_owned(cluster, primary)
        if left:
            _report(cluster, primary, "Deleting", f"waits for the deletion of {_summary([named(obj) for obj in left])}")
            return requeue_after(self.recheck)
        cluster.remove_finalizer(primary, self.finalizer)
        return DONE

    def _prepared(self, primary: Object, obj: Mapping[str, Any]) -> Object:
        """A desired object as it is applied: with its owner, or the label alone where it cannot have one."""
        made = copied(obj)
        if kind_of(made) not in self.kinds:
            raise Invalid(f"{named(made)}: its kind is not among those of the dependents")
        metadata = made["metadata"]
        labels = metadata.get("labels") or {}
        metadata["labels"] = {**labels, OWNER: checks.text("uid of the owner", primary["metadata"].get("uid"))}
        namespace = primary["metadata"].get("namespace")
        if namespace is None or namespace == metadata.get("namespace"):
            set_controller(made, primary)
        elif self.finalizer is None:
            raise Invalid(f"{named(made)} cannot be owned by {named(primary)}: give the dependents a finalizer")
        return stamped(made)

    def _of_owner(self, cluster: Cluster, primary: Object) -> list[Object]:
        """The dependents that exist."""
        index = (OWNER, primary["metadata"]["uid"])
        found: list[Object] = []
        for kind, page in zip(self.kinds, cluster.batch([List(kind, index=index) for kind in self.kinds]), strict=True):
            found += page.items
            while page.continue_token is not None:
                page = cluster.list(kind, index=index, continue_token=page.continue_token)
                found += page.items
        return found

    def _not_owned(self, cluster: Cluster, primary: Object) -> list[Object]:
        uid = primary["metadata"]["uid"]
        return [
            obj
            for obj in self._of_owner(cluster, primary)
            if all(each["uid"] != uid for each in obj["metadata"].get("ownerReferences") or [])
        ]


def _remove(cluster: Cluster, objects: Sequence[Object]) -> bool:
    """Deletes these objects, and not newer ones of the same names; returns whether there was something to delete."""
    doomed = [obj for obj in objects if not is_deleting(obj)]
    if not doomed:
        return False
    deletes = [Delete(kind_of(obj), key_of(obj), uid=obj["metadata"]["uid"]) for obj in doomed]
    for result in cluster.batch(deletes, return_errors=True):
        if isinstance(result, ApiError) and not isinstance(result, NotFound):
            raise result
    return True


def _report(
    cluster: Cluster, primary: Object, reason: str, message: str, status: Mapping[str, Any] | None = None
) -> None:
    """Writes the conditions ``Ready`` and ``Progressing``."""
    present = cluster.get(kind_of(primary), key_of(primary))
    if present is None:
        return
    following = {**present}
    ready, generation = reason == "Ready", primary["metadata"].get("generation")
    for type, word in (("Ready", ready), ("Progressing", not ready)):
        set_condition(following, type, word, reason, message, observed_generation=generation)
    conditions = following["status"]["conditions"]
    write_status(cluster, kind_of(primary), key_of(primary), present, {**(status or {}), "conditions": conditions})


def _identity(obj: Mapping[str, Any]) -> tuple[Kind, str]:
    return kind_of(obj), str(key_of(obj))


def _summary(texts: Sequence[str]) -> str:
    return f"{texts[0]}, and {len(texts) - 1} more" if len(texts) > 1 else texts[0]
