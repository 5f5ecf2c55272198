"""The objects that a primary object should have. Entry point: :class:`Dependents`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from . import checks
from .cluster import Cluster
from .conditions import set_condition
from .desired import Desired, copied, write_status
from .description import Enqueue, Index, Watch
from .errors import ApiError, ApiCode, Invalid, NotFound
from .finalizers import has_finalizer
from .objects import Kind, Object, is_deleting, key_of, kind_of, named, set_controller
from .operations import Apply, Create, Delete, List
from .ready import readiness
from .reconciler import DONE, Action, requeue_after

OWNER = "windlass.dev/owner"
"""The label with the owner's uid, and the index of it."""
MOST = 3
"""Failures that a message names."""
LONGEST = 200
"""Characters of what a message says of one failure."""

Identity = tuple[Kind, str]
"""Kind and key."""


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
    recreate: Sequence[Kind | str] = field(default=(), kw_only=True)
    """Those of the kinds whose objects are deleted and created again if the server does not take a change (HTTP 422), as of a field that
    is immutable. Default: none."""
    finalizer: str | None = field(default=None, kw_only=True)
    """Held by the primary object until its deletion is done. Needed for clean-ups, and for dependents that it cannot own."""
    ready: Callable[[Object], str | None] = field(default=readiness, kw_only=True)
    """Why an object is not ready; nothing if it is."""
    recheck: timedelta | float = field(default=10, kw_only=True)
    """When to look again (seconds, or a timedelta) while something is not ready and no event comes."""

    def __post_init__(self) -> None:
        for name in ("kinds", "recreate"):
            object.__setattr__(self, name, tuple(Kind.of(kind) for kind in getattr(self, name)))
        for kind in self.recreate:
            if kind not in self.kinds:
                raise Invalid(f"recreate: {kind.kind} is not among the kinds of the dependents")

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
        primary: Mapping[str, Any],
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
        self, cluster: Cluster, primary: Mapping[str, Any], desired: Iterable[Mapping[str, Any]], status: Mapping[str, Any]
    ) -> Action:
        wanted: dict[Identity, Desired] = {}
        for obj in desired:
            made = self._prepared(primary, obj)
            name = _identity(made.fields)
            if name in wanted:
                raise Invalid(f"{named(obj)}: it is desired twice")
            wanted[name] = made
        if self.finalizer is not None:
            cluster.ensure_finalizer(primary, self.finalizer)
        run = _Run(cluster, self, wanted, {_identity(obj): obj for obj in self._of_owner(cluster, primary)})
        run.apply()
        run.delete()
        if run.failures:
            text = _several(run.failures)
            try:
                _report(cluster, primary, "ApplyFailed", text)
            except ApiError as error:
                text += f"; and the status cannot be written: {_plain(error)}"
            raise run.failed(text)
        waiting = run.waiting + run.not_ready()
        if not waiting:
            _report(cluster, primary, "Ready", "all dependents are ready", status)
            return DONE
        _report(cluster, primary, "NotReady", f"waits for {_summary(waiting)}", status)
        return requeue_after(self.recheck)

    def _end(self, cluster: Cluster, primary: Mapping[str, Any], cleanup: Callable[[], object] | None) -> Action:
        """Ends the dependents. The garbage collector takes those that the primary object owns."""
        if self.finalizer is None or not has_finalizer(primary, self.finalizer):
            return DONE
        if cleanup is not None:
            cleanup()
        left = self._not_owned(cluster, primary)
        if self._removed(cluster, left):
            left = self._not_owned(cluster, primary)
        if left:
            _report(cluster, primary, "Deleting", f"waits for the deletion of {_summary([named(obj) for obj in left])}")
            return requeue_after(self.recheck)
        cluster.remove_finalizer(primary, self.finalizer)
        return DONE

    def _prepared(self, primary: Mapping[str, Any], obj: Mapping[str, Any]) -> Desired:
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
        return Desired(made)

    def _of_owner(self, cluster: Cluster, primary: Mapping[str, Any]) -> list[Object]:
        """The dependents that exist. There are none of a kind that is not served, if definitions are dependents too, or at the end."""
        may_lack = is_deleting(primary) or any(_is_definition(Kind.of(kind)) for kind in self.kinds)
        index = (OWNER, primary["metadata"]["uid"])
        found: list[Object] = []
        pages = cluster.batch([List(kind, index=index) for kind in self.kinds], return_errors=True)
        for kind, page in zip(self.kinds, pages, strict=True):
            if isinstance(page, ApiError):
                if page.code == ApiCode.UNKNOWN_KIND and may_lack:
                    continue
                raise page
            found += page.items
            while page.continue_token is not None:
                page = cluster.list(kind, index=index, continue_token=page.continue_token)
                found += page.items
        return found

    def _not_owned(self, cluster: Cluster, primary: Mapping[str, Any]) -> list[Object]:
        uid = primary["metadata"]["uid"]
        return [
            obj
            for obj in self._of_owner(cluster, primary)
            if all(each["uid"] != uid for each in obj["metadata"].get("ownerReferences") or [])
        ]

    def _removed(self, cluster: Cluster, objects: Sequence[Object]) -> bool:
        """Deletes these objects; returns whether there was something to delete. The error is the first one, after all."""
        results = list(_remove(cluster, objects))
        for _, error in results:
            if error is not None:
                raise error
        return bool(results)


class _Run:
    """One pass over the dependents of a living object: a failure of one keeps none of the others."""

    def __init__(
        self, cluster: Cluster, parts: Dependents, wanted: dict[Identity, Desired], present: dict[Identity, Object]
    ) -> None:
        self.cluster = cluster
        self.recreate = parts.recreate
        self.ready = parts.ready
        self.wanted = wanted
        self.present = present
        self.waiting: list[str] = []
        self.failures: list[str] = []
        self.first: ApiError | None = None

    def apply(self) -> None:
        """Applies what differs: first what others need, Namespaces and the definitions of kinds."""
        stored: list[tuple[Desired, Object]] = []
        for first in (True, False):
            stored += self._apply([name for name, obj in self.wanted.items() if _is_ground(obj.fields) == first])
        self._applied([(obj, obj.noted(kept)) for obj, kept in stored if not obj.held(kept)])

    def _apply(self, names: Sequence[Identity]) -> list[tuple[Desired, Object]]:
        changes: list[tuple[Desired, Object]] = []
        for name in names:
            obj, present = self.wanted[name], self.present.get(name)
            if present is not None and obj.held(present):
                continue
            if present is not None and name[0] in self.recreate and is_deleting(present):
                self.waiting.append(f"{named(present)}: it is deleted, and then created again")
                continue
            changes.append((obj, obj.next(present)))
        return self._applied(changes)

    def _applied(self, changes: Sequence[tuple[Desired, Object]]) -> list[tuple[Desired, Object]]:
        """Applies these, and returns what is stored."""
        stored: list[tuple[Desired, Object]] = []
        refused: list[tuple[Desired, Object, ApiError]] = []
        results = self.cluster.batch([Apply(made, force=True) for _, made in changes], return_errors=True) if changes else []
        for (obj, made), result in zip(changes, results, strict=True):
            name = _identity(obj.fields)
            if not isinstance(result, ApiError):
                self.present[name] = result
                stored.append((obj, result))
            elif result.http_status == 422 and self._is_other(obj):
                refused.append((obj, made, result))
            elif (why := _waits_for(result, obj.fields, self.wanted)) is not None:
                self.waiting.append(f"{named(obj.fields)}: {why}")
            else:
                self._fail(f"{named(obj.fields)}: {_plain(result)}", result)
        self._recreate(refused)
        return stored

    def _is_other(self, obj: Desired) -> bool:
        """Whether an object is to be deleted and created again. One that was made of the same fields is not: it would be made in the same
        way again, and refused again."""
        name = _identity(obj.fields)
        present = self.present.get(name)
        return name[0] in self.recreate and present is not None and not obj.was_applied_to(present)

    def _recreate(self, refused: Sequence[tuple[Desired, Object, ApiError]]) -> None:
        """Deletes these objects, so that they are created again when they are gone. The server is asked before whether it would create
        them: an object that is wrong altogether is not lost. One that is refused for what the object has itself, such as a port, tells
        nothing: the change is the failure then."""
        doomed: list[Object] = []
        asked = self.cluster.batch([Create(made, dry_run=True) for _, made, _ in refused], return_errors=True) if refused else []
        for (obj, _, change), result in zip(refused, asked, strict=True):
            if not isinstance(result, ApiError) or result.code == ApiCode.ALREADY_EXISTS:
                doomed.append(self.present[_identity(obj.fields)])
            else:
                error = change if result.http_status == 422 else result
                self._fail(f"{named(obj.fields)}: {_plain(error)}", error)
        for obj, error in _remove(self.cluster, doomed):
            if error is None or error.code == ApiCode.CONFLICT:
                self.waiting.append(f"{named(obj)}: it is deleted, and then created again")
            else:
                self._fail(f"{named(obj)} cannot be deleted: {_plain(error)}", error)

    def delete(self) -> None:
        """Deletes what is no longer desired."""
        for obj, error in _remove(self.cluster, [obj for name, obj in self.present.items() if name not in self.wanted]):
            if error is not None:
                self._fail(f"{named(obj)} cannot be deleted: {_plain(error)}", error)

    def not_ready(self) -> list[str]:
        """What is stored and not ready, each with the reason."""
        there = ((obj, self.present.get(name)) for name, obj in self.wanted.items())
        reasons = ((obj, self.ready(present)) for obj, present in there if present is not None)
        return [f"{named(obj.fields)}: {why}" for obj, why in reasons if why]

    def _fail(self, text: str, error: ApiError) -> None:
        self.failures.append(text)
        self.first = self.first or error

    def failed(self, text: str) -> ApiError:
        """The first failure, with the text of all."""
        first = self.first
        assert first is not None
        more = {"details": first.details, "retry_after": first.retry_after}
        return type(first)(text, http_status=first.http_status, reason=first.reason, **more)


def _remove(cluster: Cluster, objects: Sequence[Object]) -> Iterator[tuple[Object, ApiError | None]]:
    """Deletes these objects and what they own, and not newer ones of the same names; Namespaces and definitions of kinds after all others.
    Returns each that was there, with the failure."""
    for last in (False, True):
        doomed = [obj for obj in objects if not is_deleting(obj) and _is_ground(obj) == last]
        if not doomed:
            continue
        deletes = [Delete(kind_of(obj), key_of(obj), uid=obj["metadata"]["uid"], propagation="background") for obj in doomed]
        for obj, result in zip(doomed, cluster.batch(deletes, return_errors=True), strict=True):
            yield obj, result if isinstance(result, ApiError) and not isinstance(result, NotFound) else None


def _report(
    cluster: Cluster, primary: Mapping[str, Any], reason: str, message: str, status: Mapping[str, Any] | None = None
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


def _identity(obj: Mapping[str, Any]) -> Identity:
    return kind_of(obj), str(key_of(obj))


def _is_ground(obj: Mapping[str, Any]) -> bool:
    """Whether other objects need this one to exist."""
    kind = kind_of(obj)
    return _is_definition(kind) or (kind.group, kind.kind) == ("", "Namespace")


def _is_definition(kind: Kind) -> bool:
    """Whether this is the kind of definitions of kinds."""
    return (kind.group, kind.kind) == ("apiextensions.k8s.io", "CustomResourceDefinition")


def _is_defined(error: ApiError, kind: Kind, wanted: Mapping[Identity, Desired]) -> bool:
    """Whether the cluster does not know a kind whose definition is desired."""
    specs = (obj.fields.get("spec") or {} for obj in wanted.values() if _is_ground(obj.fields))
    known = ((spec.get("group"), (spec.get("names") or {}).get("kind")) for spec in specs)
    return error.code == ApiCode.UNKNOWN_KIND and (kind.group, kind.kind) in known


def _waits_for(error: ApiError, obj: Mapping[str, Any], wanted: Mapping[Identity, Desired]) -> str | None:
    """What an object waits for that could not be applied; nothing if that is a failure."""
    details = error.details if isinstance(error.details, dict) else {}
    namespace = key_of(obj).namespace
    if error.code == ApiCode.NOT_FOUND and details.get("kind") == "namespaces":
        return f"its namespace {namespace} does not exist"
    if any(cause.get("reason") == "NamespaceTerminating" for cause in details.get("causes") or []):
        return f"its namespace {namespace} is being deleted"
    return "its kind is not served yet" if _is_defined(error, kind_of(obj), wanted) else None


def _plain(error: ApiError) -> str:
    """What a failure says, in plain words: the first field that is wrong, without the value that a server prints of it."""
    details = error.details if isinstance(error.details, dict) else {}
    texts: list[str] = []
    for cause in details.get("causes") or []:
        said = str(cause.get("message") or "").rpartition("}: ")[2]
        texts.append(_bounded(f"{cause['field']}: {said}" if cause.get("field") else said))
    return _summary(texts) if texts else _bounded(error.message)


def _bounded(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _several(texts: Sequence[str]) -> str:
    """The first texts, and how many more there are."""
    more = f"; and {len(texts) - MOST} more" if len(texts) > MOST else ""
    return "; ".join(texts[:MOST]) + more


def _summary(texts: Sequence[str]) -> str:
    return f"{texts[0]}, and {len(texts) - 1} more" if len(texts) > 1 else texts[0]
