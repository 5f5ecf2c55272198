"""The fleet in memory: the cases of the specification, and guests that run on it."""

import json
import unittest
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import windlass
from windlass import fleet, log
from windlass.operations import Get
from windlass.testing import Fleet, LogLine, Unexpected

SPEC = Path(__file__).parents[2] / "spec" / "memory"
MAPS = windlass.Kind.of("v1/ConfigMap")
SITES = windlass.Kind.of("example.com/v1/Site")

_OPTIONS = {"labelSelector": "labels", "fieldSelector": "fields", "resourceVersion": "resource_version"}


def config_map(name: str, **data: str) -> windlass.Object:
    made = windlass.new_object(MAPS, f"default/{name}")
    return made | ({"data": data} if data else {})


def site(name: str) -> windlass.Object:
    return windlass.new_object(SITES, f"default/{name}") | {"spec": {"size": 1}}


def has(found: Any, wanted: Any) -> bool:
    """Whether an object has at least these fields; None is a field that must not be there."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(has(found.get(name), each) for name, each in wanted.items())
    return bool(found == wanted)


class Steps:
    """Runs the steps of a case."""

    def __init__(self) -> None:
        self.alpha = Fleet().cluster("alpha")

    def run(self, step: dict[str, Any]) -> Any:
        verb = next(name for name in step if hasattr(self, f"do_{name}"))
        more: dict[str, str] = {"subresource": "status"} if step.get("status") else {}
        return getattr(self, f"do_{verb}")(step[verb], **more)

    def do_put(self, obj: Any) -> None:
        self.alpha.put(obj)

    def do_remove(self, at: Any) -> None:
        self.alpha.remove(at["kind"], at["key"])

    def do_create(self, obj: Any) -> Any:
        return self.alpha.client.create(obj)

    def do_update(self, obj: Any, **more: Any) -> Any:
        return self.alpha.client.update(obj, **more)

    def do_patch(self, at: Any, **more: Any) -> Any:
        return self.alpha.client.patch(at["kind"], at["key"], at["patch"], **more)

    def do_apply(self, obj: Any, **more: Any) -> Any:
        return self.alpha.client.apply(obj, **more)

    def do_get(self, at: Any) -> Any:
        return self.alpha.client.get(at["kind"], at["key"])

    def do_delete(self, at: Any) -> Any:
        return self.alpha.client.delete(**{_OPTIONS.get(name, name): each for name, each in at.items()})

    def do_deleteCollection(self, at: Any) -> Any:
        return self.alpha.client.delete_collection(**{_OPTIONS.get(name, name): each for name, each in at.items()})

    def do_list(self, at: Any) -> Any:
        return self.alpha.client.list(**{_OPTIONS.get(name, name): each for name, each in at.items()})


class Spec(unittest.TestCase):
    def run_step(self, steps: Steps, step: dict[str, Any]) -> None:
        fails = None
        answer: Any = None
        try:
            answer = steps.run(step)
        except windlass.ApiError as error:
            fails = error.code.value
        self.assertEqual(fails, step.get("fails"), step)
        if "list" in step and fails is None:
            self.assertEqual(answer.continue_token is not None, step.get("more", False), step)
            answer = [obj["metadata"]["name"] for obj in answer]
        if "answer" in step:
            self.assertTrue(has(answer, step["answer"]), f"{answer}\ndoes not have\n{step}")

    def test_every_case_of_the_specification(self) -> None:
        files = sorted(SPEC.glob("*.json"))
        self.assertTrue(files)
        for file in files:
            for case in json.loads(file.read_text())["cases"]:
                with self.subTest(case["name"]):
                    steps = Steps()
                    for step in case["steps"]:
                        self.run_step(steps, step)


class Keeper(windlass.Reconciler):
    """Keeps a ConfigMap for each site, by dependents."""

    parts = windlass.Dependents([MAPS], ready=lambda obj: None if obj.get("ready") else "is not ready")

    def describe(self) -> windlass.Description:
        watches = [windlass.Watch(SITES), *self.parts.watches]
        return windlass.Description("keeps", watches=watches, indexes=self.parts.indexes)

    def reconcile(self, request: windlass.Request, cluster: windlass.Cluster) -> windlass.Action | None:
        found = cluster.get(SITES, request.key)
        if found is None:
            return None
        wanted = [config_map(f"{request.name}-{at}") for at in range(found["spec"]["size"])]
        return self.parts.reconcile(cluster, found, wanted)


class Guest(windlass.Reconciler, windlass.Mapper):
    """Runs the function of a test."""

    def __init__(self, body: Any) -> None:
        self.body = body

    def describe(self) -> windlass.Description:
        return self.body()  # type: ignore[no-any-return]

    def reconcile(self, request: windlass.Request, cluster: windlass.Cluster) -> windlass.Action | None:
        return self.body(request, cluster)  # type: ignore[no-any-return]

    def map(
        self, cluster: windlass.Cluster, kind: windlass.Kind, objects: list[windlass.Object]
    ) -> Iterable[windlass.Request]:
        return self.body(cluster, kind, objects)  # type: ignore[no-any-return]


class Reconciles(unittest.TestCase):
    def test_dependents_are_kept_and_pruned_and_a_second_run_writes_nothing(self) -> None:
        alpha = Fleet().cluster("alpha")
        alpha.put(site("a") | {"spec": {"size": 2}})
        self.assertEqual(alpha.reconcile(Keeper(), "default/a"), windlass.requeue_after(10))
        names = [obj["metadata"]["name"] for obj in alpha.objects()]
        self.assertEqual(names, ["a-0", "a-1", "a"])
        self.assertEqual(alpha.reconciled_writes(Keeper(), "default/a"), 0)

        for at in range(2):
            alpha.put(config_map(f"a-{at}") | {"ready": True})
        self.assertEqual(alpha.reconcile(Keeper(), "default/a"), windlass.DONE)
        ready = windlass.condition(alpha.get(SITES, "default/a") or {}, "Ready")
        self.assertEqual((ready or {})["lastTransitionTime"], "2026-01-31T09:30:00Z")

        alpha.put(site("a"))
        self.assertEqual(
            alpha.reconciled_writes(Keeper(), "default/a"), 2
        )  # a deletion, and the generation of the status
        self.assertIsNone(alpha.get(MAPS, "default/a-1"))
        alpha.remove(SITES, "default/a")
        self.assertEqual(alpha.objects(), [])

    def test_what_is_ensured_is_written_once(self) -> None:
        def body(request: windlass.Request, cluster: windlass.Cluster) -> None:
            cluster.ensure(config_map(f"{request.name}-copy", x="1"))
            cluster.create_or_update(MAPS, request.key, lambda obj: obj.setdefault("data", {}).update(y="2"))
            cluster.set_status(MAPS, request.key, {"ready": True})

        alpha = Fleet().cluster("alpha")
        self.assertEqual(alpha.reconciled_writes(Guest(body), "default/a"), 3)
        self.assertEqual(alpha.reconciled_writes(Guest(body), "default/a"), 0)
        self.assertEqual(alpha.calls[:6], ["get", "apply", "get", "create", "get", "patch"])
        self.assertEqual(alpha.writes, 3)
        self.assertEqual((alpha.get(MAPS, "default/a") or {})["status"], {"ready": True})

    def test_finalizers_are_added_and_removed(self) -> None:
        alpha = Fleet().cluster("alpha")
        alpha.put(site("a"))
        written = alpha.client.ensure_finalizer(alpha.get(SITES, "default/a") or {}, "example.com/f")
        alpha.remove(SITES, "default/a")
        with self.assertRaises(windlass.Conflict):
            alpha.client.remove_finalizer(written.object, "example.com/f")
        alpha.client.remove_finalizer(alpha.get(SITES, "default/a") or {}, "example.com/f")
        self.assertIsNone(alpha.get(SITES, "default/a"))

    def test_a_call_that_is_to_fail_fails_once(self) -> None:
        def body(request: windlass.Request, cluster: windlass.Cluster) -> None:
            cluster.ensure(config_map(request.name))

        alpha = Fleet().cluster("alpha")
        alpha.fail_next("apply", windlass.Throttled("slow down"))
        alpha.put(config_map("b"))
        with self.assertRaises(windlass.Throttled):
            alpha.reconcile(Guest(body), "default/a")
        self.assertIsNone(alpha.get(MAPS, "default/a"))
        alpha.reconcile(Guest(body), "default/a")
        self.assertIsNotNone(alpha.get(MAPS, "default/a"))
        self.assertEqual(alpha.calls, ["get", "apply", "get", "apply"])
        wrong: Any = "watch"
        self.assertRaises(ValueError, alpha.fail_next, wrong, windlass.Throttled())

    def test_a_guest_reads_the_config_and_the_time_and_writes_logs_and_events(self) -> None:
        def body(request: windlass.Request, cluster: windlass.Cluster) -> None:
            log.info("painted", color=windlass.config()["color"], at=windlass.timestamp(windlass.now()))
            cluster.event(config_map(request.name), "Painted", "painted red", warning=True)
            raise windlass.NotReady("waits for paint", 5)

        test = Fleet(config={"color": "red"}, now=datetime(2026, 2, 3, tzinfo=UTC))
        alpha = test.cluster("alpha")
        self.assertEqual(alpha.reconcile(Guest(body), "default/a"), windlass.requeue_after(5))
        painted = LogLine("info", "painted", {"color": "red", "at": "2026-02-03T00:00:00.000Z"})
        self.assertEqual(test.logs, [painted, LogLine("info", "not ready yet", {"why": "waits for paint"})])
        self.assertEqual(
            [(event.reason, event.warning, str(event.key)) for event in alpha.events], [("Painted", True, "default/a")]
        )
        self.assertEqual((alpha.calls, test.cluster("beta").events), ([], []))

    def test_other_clusters_are_listed_and_opened(self) -> None:
        def body(_request: windlass.Request, cluster: windlass.Cluster) -> None:
            known = windlass.ClusterInfo("beta", {"region": "eu"}, {"zone": "1"})
            self.assertEqual(fleet.clusters("region=eu"), [known])
            self.assertEqual([each.name for each in fleet.clusters()], ["", "alpha", "beta"])
            with fleet.open("beta") as beta:
                beta.create(config_map("a", x="1"))
            with self.assertRaisesRegex(Unexpected, "closed"):
                beta.get(MAPS, "default/a")
            fleet.local().create(config_map("hub"))
            with self.assertRaises(windlass.Denied) as denies:
                fleet.open("gamma")
            message = 'this fleet has no cluster "gamma": the test names it with Fleet.cluster'
            self.assertEqual(denies.exception.message, message)
            asked = [(name, Get(MAPS, "default/a")) for name in ("alpha", "beta", "gamma")]
            absent, found, denied = fleet.batch(asked, return_errors=True)
            self.assertIsNone(absent)
            self.assertEqual(found["data"], {"x": "1"})
            self.assertIsInstance(denied, windlass.Denied)

        test = Fleet()
        alpha, hub = test.cluster("alpha"), test.cluster("")
        beta = test.cluster("beta", labels={"region": "eu"}, properties={"zone": "1"})
        alpha.reconcile(Guest(body), "default/a")
        self.assertIs(test.cluster("beta"), beta)
        self.assertIsNotNone(hub.get(MAPS, "default/hub"))
        self.assertEqual((alpha.calls, beta.calls), (["get"], ["create", "get"]))

    def test_a_wrong_selector_of_clusters_is_refused_even_if_there_are_none(self) -> None:
        with Fleet().running(), self.assertRaises(windlass.Invalid):
            fleet.clusters("region like (eu)")

    def test_mappers_and_descriptions_run(self) -> None:
        def body(
            cluster: windlass.Cluster, kind: windlass.Kind, objects: list[windlass.Object]
        ) -> Iterable[windlass.Request]:
            self.assertEqual(kind, MAPS)
            return (
                windlass.Request(cluster.name, windlass.key_of(each)) for each in objects + cluster.list(MAPS).items
            )

        test = Fleet()
        alpha = test.cluster("alpha")
        alpha.put(config_map("b"))
        requests = alpha.map(Guest(body), "v1/ConfigMap", config_map("a"))
        self.assertEqual([str(each) for each in requests], ["cluster://alpha/default/a", "cluster://alpha/default/b"])
        self.assertEqual(test.describe(Keeper()).primary, SITES)
        wrong = windlass.Description("t", watches=[windlass.Watch(MAPS), windlass.Watch("v1/Secret")])
        self.assertRaises(Unexpected, test.describe, Guest(lambda: wrong))
        self.assertRaises(Unexpected, alpha.reconcile, Guest(lambda request, cluster: 5), "default/a")

    def test_the_host_before_is_there_again(self) -> None:
        test = Fleet()
        with test.running():
            windlass.now()
        self.assertRaises(RuntimeError, windlass.now)
