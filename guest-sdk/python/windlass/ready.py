"""Why an object is not ready. Entry point: :func:`readiness`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .conditions import condition
from .objects import is_deleting, kind_of


def readiness(obj: Mapping[str, Any]) -> str | None:
    """Why an object is not ready; ``None`` if it is. Deployments, StatefulSets, Services, Jobs and PersistentVolumeClaims are
    ready by their own rules, other objects by their condition ``Ready``, else ``Available``. An object without them is ready
    once it exists."""
    if is_deleting(obj):
        return "it is being deleted"
    kind = kind_of(obj)
    return _KNOWN.get(f"{kind.group}/{kind.kind}", _other)(obj, obj.get("spec") or {}, obj.get("status") or {})


def _deployment(obj: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    wanted = spec.get("replicas", 1)
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    progressing = condition(obj, "Progressing") or {}
    if _is_older(obj, status):
        return _unseen(obj)
    if progressing.get("status") == "False" and progressing.get("reason") == "ProgressDeadlineExceeded":
        return _said(progressing)
    if updated < wanted:
        return f"{updated} of {wanted} replicas are updated"
    if (old := status.get("replicas", 0) - updated) > 0:
        return f"{old} old replicas are left"
    return f"{available} of {wanted} replicas are available" if available < wanted else None


def _stateful_set(obj: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    wanted = spec.get("replicas", 1)
    updated, ready = status.get("updatedReplicas", 0), status.get("readyReplicas", 0)
    strategy = spec.get("updateStrategy") or {}
    new = wanted - ((strategy.get("rollingUpdate") or {}).get("partition") or 0)
    if _is_older(obj, status):
        return _unseen(obj)
    if updated < new and strategy.get("type") != "OnDelete":
        return f"{updated} of {new} replicas are updated"
    return f"{ready} of {wanted} replicas are ready" if ready < wanted else None


def _service(obj: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    if spec.get("type") != "LoadBalancer" or (status.get("loadBalancer") or {}).get("ingress"):
        return None
    return "its load balancer has no address"


def _job(obj: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    failed = condition(obj, "Failed")
    if failed and failed["status"] == "True":
        return _said(failed)
    complete = condition(obj, "Complete")
    return None if complete and complete["status"] == "True" else "it is not complete"


def _claim(obj: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    return None if status.get("phase") == "Bound" else "it is not bound"


def _other(obj: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    found = condition(obj, "Ready") or condition(obj, "Available")
    if found is None:
        return None
    if any("observedGeneration" in part and _is_older(obj, part) for part in (found, status)):
        return _unseen(obj)
    return None if found.get("status") == "True" else _said(found)


_KNOWN: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], str | None]] = {
    "apps/Deployment": _deployment,
    "apps/StatefulSet": _stateful_set,
    "/Service": _service,
    "batch/Job": _job,
    "/PersistentVolumeClaim": _claim,
}
"""By group and kind."""


def _is_older(obj: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Whether a status or a condition is of an older generation."""
    older: bool = part.get("observedGeneration", 0) < obj["metadata"].get("generation", 0)
    return older


def _unseen(obj: Mapping[str, Any]) -> str:
    return f"its controller has not seen its generation {obj['metadata']['generation']}"


def _said(found: Mapping[str, Any]) -> str:
    texts = [text for text in (found.get("reason"), found.get("message")) if text]
    return ": ".join(texts) or f"its condition {found['type']} is {found['status']}"
