"""Keeps records of DNS at an API outside of Kubernetes.

A write is a PUT of the whole record, so that doing it twice is the same as once. The API's token is no matter of this
guest: the operator has the host add it (``spec.http`` of the Reconciler).
"""

from typing import Any

from windlass import (
    Cluster,
    Description,
    NotReady,
    Reconciler,
    Request,
    Terminal,
    Watch,
    config,
    has_finalizer,
    http,
    is_deleting,
)

RECORD = "example.windlass.dev/v1/DnsRecord"
FINALIZER = "dns.example.windlass.dev/record"
"""Holds the object until its record is gone."""
PATIENCE = 10
"""How long to wait when the API asks for patience without saying how long."""


class Guest(Reconciler):
    def describe(self) -> Description:
        return Description("keeps records of DNS", watches=[Watch(RECORD)])

    def reconcile(self, request: Request, cluster: Cluster) -> None:
        wanted = cluster.get(RECORD, request.key)
        if wanted is None:
            return
        zone, name, address = (wanted["spec"][field] for field in ("zone", "name", "address"))
        url = f"{config()['api']}/v1/zones/{zone}/records/{name}"
        # It stays in the status when the spec names another record, until the old one is gone.
        before = wanted.get("status", {}).get("url", url)
        if is_deleting(wanted):
            if has_finalizer(wanted, FINALIZER):
                remove(before)
                cluster.remove_finalizer(wanted, FINALIZER)
            return
        # Added before the record is made, so that no record outlives its object.
        cluster.ensure_finalizer(wanted, FINALIZER)
        if before != url:
            remove(before)
        cluster.set_status(RECORD, request.key, {"url": url})
        record = {"address": address}
        if read(url) != record:
            settled(http.put(url, json=record))
            cluster.event(wanted, "RecordWritten", f"{name}.{zone} is {address}")


def read(url: str) -> Any:
    answer = http.get(url)
    return None if answer.status == 404 else settled(answer).json()


def remove(url: str) -> None:
    answer = http.delete(url)
    if answer.status != 404:
        settled(answer)


def settled(answer: http.Response) -> http.Response:
    """The answer of a call that did what it was to do. At the limit of the API the run ends, and goes on when the API allows
    it."""
    try:
        return answer.success()
    except http.HttpStatusError as error:
        if error.status == 429:
            raise NotReady(str(error), error.retry_after or PATIENCE) from error
        if error.status in (400, 422):
            raise Terminal(str(error)) from error
        raise
