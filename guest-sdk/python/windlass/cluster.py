"""One cluster's API. Entry point: :class:`Cluster`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, cast

from . import desired, finalizers
from .errors import ApiError, NotFound
from .host import Client
from .objects import Key, Kind, Object
from .operations import (
    Answer,
    Apply,
    Create,
    Delete,
    DeleteCollection,
    Event,
    Get,
    List,
    Operation,
    Page,
    Patch,
    PatchType,
    Propagation,
    Update,
    Written,
)

Answers = list[Any]
"""The results of a batch: for each operation an object, a :class:`windlass.Page`, ``None``, or an error."""


class Cluster:
    """A cluster, within the grants of the operator. Valid until the call that received it ends.

    Every method raises :class:`windlass.ApiError` when the call fails. A call that no rule grants raises
    :class:`windlass.Denied`; the message contains the missing rule.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def name(self) -> str:
        """The cluster's name; ``""`` is the local cluster."""
        return self._client.name()

    def get(
        self,
        kind: Kind | str,
        key: Key | str,
        *,
        live: bool = False,
        metadata_only: bool = False,
        subresource: str | None = None,
    ) -> Object | None:
        """Reads an object; ``None`` if there is none.

        Reads come from the host's cache, or from the API server if the cache cannot answer, so ``None`` always means absent.
        ``live`` asks the API server. ``metadata_only`` reads only apiVersion, kind and metadata.
        ``subresource``: ``status``, ``scale``, ….
        """
        call = Get(kind, key, live=live, metadata_only=metadata_only, subresource=subresource)
        return cast(Object | None, self._client.call(call))

    def list(
        self,
        kind: Kind | str,
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        index: tuple[str, str] | None = None,
        limit: int = 0,
        continue_token: str | None = None,
        live: bool = False,
        metadata_only: bool = False,
    ) -> Page:
        """Reads a page of objects; :meth:`list_all` reads all pages.

        Without ``namespace``: all granted namespaces. ``labels`` and ``fields`` are as kubectl's ``-l`` and
        ``--field-selector``; ``index`` is the name of a declared index and a value. ``limit`` 0 is the host's page size.
        """
        call = List(
            kind,
            namespace=namespace,
            labels=labels,
            fields=fields,
            index=index,
            limit=limit,
            continue_token=continue_token,
            live=live,
            metadata_only=metadata_only,
        )
        return cast(Page, self._client.call(call))

    def list_all(
        self,
        kind: Kind | str,
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        index: tuple[str, str] | None = None,
        page_size: int = 0,
        live: bool = False,
        metadata_only: bool = False,
    ) -> Iterator[Object]:
        """Iterates over every selected object. Reads a page only when it is needed. The arguments are those of :meth:`list`."""
        token: str | None = None
        while True:
            page = self.list(
                kind,
                namespace=namespace,
                labels=labels,
                fields=fields,
                index=index,
                limit=page_size,
                continue_token=token,
                live=live,
                metadata_only=metadata_only,
            )
            yield from page.items
            token = page.continue_token
            if token is None:
                return

    def create(self, obj: Mapping[str, Any], *, subresource: str | None = None, dry_run: bool = False) -> Object:
        """Creates an object and returns it as stored. :class:`windlass.AlreadyExists` when there is one of this name."""
        return cast(Object, self._client.call(Create(obj, subresource=subresource, dry_run=dry_run)))

    def update(self, obj: Mapping[str, Any], *, subresource: str | None = None, dry_run: bool = False) -> Object:
        """Replaces an object, or with ``subresource="status"`` its status, and returns it as stored.
        :class:`windlass.Conflict` when its ``metadata.resourceVersion`` is not the current one."""
        return cast(Object, self._client.call(Update(obj, subresource=subresource, dry_run=dry_run)))

    def patch(
        self,
        kind: Kind | str,
        key: Key | str,
        patch: Any,
        *,
        type: PatchType = "merge",
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Patches an object and returns it as stored: a partial object by default, in which ``None`` removes.
        :class:`windlass.NotFound` when there is none."""
        call = Patch(kind, key, patch, type=type, subresource=subresource, dry_run=dry_run)
        return cast(Object, self._client.call(call))

    def apply(
        self,
        obj: Mapping[str, Any],
        *,
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply: creates or changes the object so that it has these fields, drops those that this reconciler
        applied before and that are no longer there, and returns it as stored. :class:`windlass.Conflict` if another
        manager owns a field; ``force`` takes the field over."""
        return cast(Object, self._client.call(Apply(obj, force=force, subresource=subresource, dry_run=dry_run)))

    def delete(
        self,
        kind: Kind | str,
        key: Key | str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> bool:
        """Deletes an object; returns whether there was one.

        :class:`windlass.Conflict` if the object has another ``uid`` or ``resource_version``. Without ``propagation`` and
        ``grace_period`` (seconds) the defaults of the kind hold.
        """
        call = Delete(
            kind,
            key,
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            grace_period=grace_period,
            dry_run=dry_run,
        )
        try:
            self._client.call(call)
        except NotFound:
            return False
        return True

    def delete_collection(
        self,
        kind: Kind | str,
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Deletes every selected object; without ``namespace`` in every granted one."""
        call = DeleteCollection(
            kind,
            namespace=namespace,
            labels=labels,
            fields=fields,
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            grace_period=grace_period,
            dry_run=dry_run,
        )
        self._client.call(call)

    def ensure(self, obj: Mapping[str, Any]) -> Written:
        """:meth:`apply` with ``force``, only if something differs: a field that is not as desired, or one that was applied by
        ``ensure`` before and is no longer desired. The annotation ``windlass.dev/applied`` has a fingerprint of what was
        applied."""
        return desired.ensure(self, obj)

    def create_or_update(self, kind: Kind | str, key: Key | str, change: Callable[[Object], object]) -> Written:
        """Reads an object, or begins one with only its kind and key, and lets ``change`` change it in place. Writes it only if
        that changed it. :class:`windlass.Conflict` if another wrote it meanwhile."""
        return desired.create_or_update(self, kind, key, change)

    def set_status(self, kind: Kind | str, key: Key | str, status: Mapping[str, Any]) -> Written:
        """Gives the status these fields; ``None`` removes one. Reads the object and patches only what differs, at the version that
        was read: :class:`windlass.Conflict` if another wrote it meanwhile."""
        return desired.set_status(self, kind, key, status)

    def ensure_finalizer(self, obj: Mapping[str, Any], finalizer: str) -> Written:
        """Adds a finalizer to an object that was read, unless it has it or is being deleted. :class:`windlass.Conflict` if the object
        has changed."""
        return finalizers.ensure_finalizer(self, obj, finalizer)

    def remove_finalizer(self, obj: Mapping[str, Any], finalizer: str) -> Written:
        """Removes a finalizer from an object that was read, if it has it. :class:`windlass.Conflict` if the object has changed."""
        return finalizers.remove_finalizer(self, obj, finalizer)

    def event(
        self, about: Mapping[str, Any], reason: str, note: str, *, warning: bool = False, action: str = "Reconcile"
    ) -> None:
        """Records an event about an object, as ``kubectl describe`` shows it. ``reason`` and ``action`` are CamelCase words.
        Needs no rule, is recorded in the background and never fails a reconcile."""
        self._client.record(Event(about, reason, note, warning=warning, action=action))

    def batch(self, operations: Sequence[Operation], *, return_errors: bool = False) -> Answers:
        """Runs operations of :mod:`windlass.operations` concurrently in the host. Returns the results in the same order: an
        object, a page, or ``None`` for a get of an absent object and for a delete (:class:`windlass.NotFound` for a delete
        of an absent object). The first error is raised when all operations have ended; with ``return_errors`` the errors
        are results."""
        return answers(self._client.batch(operations), return_errors)

    def close(self) -> None:
        """Closes the cluster; later calls fail. The SDK does it when the guest's call ends."""
        self._client.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def answers(results: Sequence[Answer | ApiError], return_errors: bool) -> Answers:
    """The results; raises the first error unless errors are to be returned."""
    for result in results:
        if isinstance(result, ApiError) and not return_errors:
            raise result
    return list(results)
