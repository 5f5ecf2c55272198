"""The cases that every SDK passes: ``guest-sdk/spec``."""

import copy
import json
import unittest
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import windlass
from windlass import host, operations
from windlass.cluster import Cluster
from windlass.desired import fingerprint
from windlass.objects import Key, Kind
from windlass.operations import Operation, Page
from windlass.reconciler import run

SPEC = Path(__file__).parents[2] / "spec"

_NAMES = {
    "uid": "uid",
    "propagation": "propagation",
    "force": "force",
    "subresource": "subresource",
    "namespace": "namespace",
    "index": "index",
    "continue_token": "continueToken",
    "patch": "patch",
    "object": "object",
    "dry_run": "dryRun",
    "live": "live",
}


class Scripted:
    """The host of a case, which expects its calls."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.calls: list[Any] = copy.deepcopy(case.get("calls", []))
        self.time: str = case.get("now", "2026-01-31T09:30:00.000Z")
        self.events: list[Any] = []
        self.logs: list[Any] = []

    def name(self) -> str:
        return "alpha"

    def close(self) -> None: ...

    def config(self) -> str:
        return "{}"

    def now(self) -> str:
        return self.time

    def log(self, level: str, message: str, fields: list[tuple[str, str]]) -> None:
        self.logs.append({"level": level, "message": message, "fields": dict(fields)})

    def record(self, event: operations.Event) -> None:
        self.events.append(
            {
                "kind": str(event.kind),
                "key": str(event.key),
                "warning": event.warning,
                "reason": event.reason,
                "action": event.action,
                "note": event.note,
            }
        )

    def next(self) -> Any:
        assert self.calls, "the case expects no further call"
        return self.calls.pop(0)

    def call(self, call: Any) -> Any:
        answer = self.answer(call, self.next())
        if isinstance(answer, Exception):
            raise answer
        return answer

    def batch(self, sent: Sequence[Operation]) -> Any:
        expected = self.next()
        assert expected["call"] == "batch" and len(expected["calls"]) == len(sent), (expected, sent)
        return [self.answer(*both) for both in zip(sent, expected["calls"], strict=True)]

    def answer(self, call: Any, given: dict[str, Any]) -> Any:
        expected = dict(given)
        answer, fails = expected.pop("answer", ...), expected.pop("fails", None)
        made = written(call)
        assert made == expected, f"{made}\ninstead of\n{expected}"
        if fails:
            more = {"http_status": fails.get("status", 0), "details": fails.get("details")}
            return windlass.ApiError.of(fails["code"])(fails["message"], **more)
        if answer is ...:
            return copy.deepcopy(made.get("object"))  # what was sent
        if made["call"] == "list":
            return Page(answer["items"], answer.get("continueToken"), "1")
        return answer

    def clusters(self, labels: str | None) -> Any:
        raise AssertionError

    def open(self, name: str) -> Any:
        raise AssertionError


def written(call: Any) -> dict[str, Any]:
    """A call as the cases write it."""
    made: dict[str, Any] = {"call": type(call).__name__.lower()}
    for each in fields(call):
        value = getattr(call, each.name)
        if isinstance(value, (Kind, Key)):
            made[each.name] = str(value)
        elif each.name in _NAMES and value is not None and value is not False:
            made[_NAMES[each.name]] = list(value) if isinstance(value, tuple) else value
        elif each.name == "type":
            assert value == "merge"
        else:
            assert not value, (each.name, value)
    return made


class Body(windlass.Reconciler):
    """A guest that does what a case says."""

    def __init__(self, body: Callable[[], Any]) -> None:
        self.body = body

    def describe(self) -> windlass.Description:
        return windlass.Description("")

    def reconcile(self, request: windlass.Request, cluster: Cluster) -> windlass.Action | None:
        return self.body()  # type: ignore[no-any-return]


class Doing:
    """What the cases do, by name."""

    def __init__(self, script: Scripted, given: dict[str, Any]) -> None:
        self.script = script
        self.cluster = Cluster(script)
        self.given = given

    def reconciled(self, body: Callable[[], Any]) -> Any:
        action = run(Body(body), windlass.Request("alpha", Key(None, "a")), self.cluster)
        assert action is not None
        return {"done": True} if action.requeue_after_ms is None else {"requeueAfterMs": action.requeue_after_ms}

    def condition(self, object: Any, type: str) -> Any:
        return windlass.condition(object, type)

    def setCondition(self, object: Any, condition: Any) -> Any:
        more = {"observed_generation": condition.pop("observedGeneration")} if "observedGeneration" in condition else {}
        return windlass.set_condition(object, **condition, **more)

    def isDeleting(self, object: Any) -> Any:
        return windlass.is_deleting(object)

    def hasFinalizer(self, object: Any, finalizer: str) -> Any:
        return windlass.has_finalizer(object, finalizer)

    def ensureFinalizer(self, object: Any, finalizer: str) -> Any:
        return self.cluster.ensure_finalizer(object, finalizer)

    def removeFinalizer(self, object: Any, finalizer: str) -> Any:
        return self.cluster.remove_finalizer(object, finalizer)

    def ownerReference(self, owner: Any) -> Any:
        return windlass.owner_reference(owner, controller=False)

    def controllerReference(self, owner: Any) -> Any:
        return windlass.owner_reference(owner)

    def setOwner(self, object: Any, owner: Any) -> Any:
        return windlass.set_owner(object, owner)

    def setController(self, object: Any, owner: Any) -> Any:
        return windlass.set_controller(object, owner)

    def controllerOf(self, object: Any) -> Any:
        return windlass.controller_of(object)

    def ensure(self, object: Any) -> Any:
        return self.cluster.ensure(object)

    def createOrUpdate(self, kind: str, key: str, set: Any) -> Any:
        return self.cluster.create_or_update(kind, key, lambda obj: obj.update(set))

    def setStatus(self, kind: str, key: str, status: Any) -> Any:
        return self.cluster.set_status(kind, key, status)

    def event(self, about: Any, reason: str, note: str, warning: bool = False) -> Any:
        return self.cluster.event(about, reason, note, warning=warning)

    def listAll(self, kind: str, namespace: str | None = None, take: int = 99) -> Any:
        names: list[str] = []
        for obj in self.cluster.list_all(kind, namespace=namespace):
            names.append(obj["metadata"]["name"])
            if len(names) == take:
                break
        return names

    def requeueAfter(self, seconds: int) -> Any:
        return {"requeueAfterMs": windlass.requeue_after(seconds).requeue_after_ms}

    def notReady(self, message: str, seconds: int) -> Any:
        def body() -> None:
            raise windlass.NotReady(message, seconds)

        return self.reconciled(body)

    def readiness(self, object: Any) -> Any:
        return windlass.readiness(object)

    def fingerprint(self, value: Any) -> Any:
        return fingerprint(value)

    def declared(self) -> windlass.Dependents:
        given, more = self.given, {}
        if "finalizer" in given:
            more["finalizer"] = given["finalizer"]
        if "recreate" in given:
            more["recreate"] = given["recreate"]
        if "recheckSeconds" in given:
            more["recheck"] = given["recheckSeconds"]
        if "ready" in given:
            more["ready"] = lambda obj: given["ready"].get(obj["kind"]) or windlass.readiness(obj)
        return windlass.Dependents(given["kinds"], **more)

    def dependents(self, **given: Any) -> Any:
        def cleanup() -> None:
            assert self.script.next() == {"call": "cleanup"}
            if "notReady" in given["cleanup"]:
                raise windlass.NotReady(
                    given["cleanup"]["notReady"]["message"], given["cleanup"]["notReady"]["seconds"]
                )
            if "fails" in given["cleanup"]:
                failure = given["cleanup"]["fails"]
                raise windlass.ApiError.of(failure["code"])(failure["message"])

        more = {"cleanup": cleanup} if "cleanup" in given else {}
        parts, primary, desired = self.declared(), given["primary"], given["desired"]
        return self.reconciled(
            lambda: parts.reconcile(self.cluster, primary, desired, status=given.get("status"), **more)
        )

    def describeDependents(self, **given: Any) -> Any:
        parts = self.declared()
        return {
            "watches": [{"kind": str(each.kind), "enqueue": each.enqueue.rule} for each in parts.watches],
            "indexes": [{"kind": str(each.kind), "name": each.name, "path": each.path} for each in parts.indexes],
        }


class Spec(unittest.TestCase):
    def run_case(self, case: dict[str, Any]) -> None:
        script = Scripted(case)
        given = copy.deepcopy(case["with"])
        returned: Any = None
        failure = None
        before = host.install(script)  # type: ignore[arg-type]
        try:
            returned = getattr(Doing(script, given), case["do"])(**given)
        except windlass.ApiError as error:
            failure = {"code": error.code.value, "message": error.message}
        finally:
            host.install(before)
        self.assertEqual(failure, case.get("fails"))
        if isinstance(returned, windlass.Written):
            self.assertEqual(returned.changed, returned.effect != "unchanged")
            returned = {"effect": returned.effect.value, "object": returned.object}
        if "returns" in case:
            self.assertEqual(returned, case["returns"])
        if "object" in case:
            self.assertEqual(given["object"], case["object"])
        self.assertEqual(script.calls, [], "calls that were not made")
        self.assertEqual(script.events, case.get("events", []))
        self.assertEqual(script.logs, case.get("logs", []))

    def test_every_case_of_the_specification(self) -> None:
        files = sorted(SPEC.glob("*.json"))
        self.assertGreater(len(files), 5)
        for file in files:
            for case in json.loads(file.read_text())["cases"]:
                with self.subTest(case["name"], file=file.stem):
                    self.run_case(case)
