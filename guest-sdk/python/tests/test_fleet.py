"""Guests that run on a fleet of tests."""

import os
import unittest
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import windlass
from windlass import fleet, log, testing_program
from windlass.operations import Get
from windlass.testing import Fleet, LogLine, Unexpected

MAPS = windlass.Kind.of("v1/ConfigMap")
SITES = windlass.Kind.of("example.com/v1/Site")


def config_map(name: str, **data: str) -> windlass.Object:
    made = windlass.new_object(MAPS, f"default/{name}")
    return made | ({"data": data} if data else {})


def site(name: str) -> windlass.Object:
    return windlass.new_object(SITES, f"default/{name}") | {"spec": {"size": 1}}


class Keeper(windlass.Reconciler):
    """Keeps a ConfigMap for each site, by dependents."""

    parts = windlass.Dependents([MAPS], ready=lambda obj: None if "ready" in obj.get("data", {}) else "is not ready")

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
            alpha.put(config_map(f"a-{at}", ready="yes"))
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
            cluster.create_or_update(SITES, request.key, lambda obj: obj.setdefault("spec", {}).update(size=2))
            cluster.set_status(SITES, request.key, {"ready": True})

        test = Fleet()
        alpha = test.cluster("alpha")
        test.define(SITES)
        self.assertEqual(alpha.reconciled_writes(Guest(body), "default/a"), 3)
        self.assertEqual(alpha.reconciled_writes(Guest(body), "default/a"), 0)
        self.assertEqual(alpha.calls[:6], ["get", "apply", "get", "create", "get", "patch"])
        self.assertEqual(alpha.writes, 3)
        self.assertEqual((alpha.get(SITES, "default/a") or {})["status"], {"ready": True})

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

    def test_clusters_change_labels_fail_heal_leave_and_join_again(self) -> None:
        test = Fleet()
        test.cluster("alpha")
        beta = test.cluster("beta", labels={"region": "eu", "old": "x"})
        beta.put(config_map("a"))

        def known(labels: str | None = None) -> list[tuple[str, bool]]:
            with test.running():
                return [(each.name, each.ready) for each in fleet.clusters(labels)]

        def read() -> windlass.Object | None:
            with test.running(), fleet.open("beta") as opened:
                return opened.get(MAPS, "default/a")

        beta.label({"region": "us", "old": None})
        self.assertEqual((known("region=us"), known("old")), ([("beta", True)], []))
        beta.fail("errors")
        with self.assertRaises(windlass.ApiError):
            read()
        beta.fail("unreachable")
        with self.assertRaises(windlass.ApiError):
            read()
        self.assertEqual(known("region=us"), [("beta", False)])
        beta.heal()
        self.assertIsNotNone(read())
        beta.leave()
        self.assertEqual(known(), [("alpha", True)])
        with self.assertRaises(windlass.Denied):
            read()
        test.cluster("beta")
        self.assertIsNotNone(read(), "it keeps its objects")

    def test_a_wrong_selector_of_clusters_is_refused(self) -> None:
        test = Fleet()
        with test.running():
            self.assertEqual(fleet.clusters(), [])
        test.cluster("alpha")
        with test.running(), self.assertRaises(windlass.Invalid):
            fleet.clusters("region like (eu)")

    def test_a_test_writes_as_another_writer(self) -> None:
        alpha = Fleet().cluster("alpha")
        alpha.put(site("a") | {"status": {"ready": True}})
        alpha.patch(SITES, "default/a", {"spec": {"size": None, "color": "red"}, "status": {"ready": False}})
        stored = alpha.get(SITES, "default/a") or {}
        self.assertEqual((stored["spec"], stored["status"]), ({"color": "red"}, {"ready": False}))
        held = site("b")
        held["metadata"] |= {"finalizers": ["example.com/f"], "deletionTimestamp": "2026-01-31T09:30:00Z"}
        alpha.put(held)
        self.assertTrue(windlass.is_deleting(alpha.get(SITES, "default/b") or {}))
        self.assertEqual((alpha.calls, len(alpha.objects())), ([], 2))
        with self.assertRaisesRegex(ValueError, "Invalid"):
            alpha.put(config_map("Not a name"))
        with self.assertRaises(ValueError):
            alpha.remove(MAPS, "default/none")

    def test_without_the_program_the_error_says_how_to_get_it(self) -> None:
        start = testing_program._socket.__wrapped__
        with (
            mock.patch.dict(os.environ, WINDLASS_BIN="/none"),
            self.assertRaisesRegex(RuntimeError, "name it in WINDLASS_BIN"),
        ):
            start()

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
