"""The scripted host: its answers, and the errors that it finds."""

import unittest
from collections.abc import Iterable
from typing import Any

import windlass
from windlass import fleet, log
from windlass.operations import Apply, Delete, Get, List, Page
from windlass.testing import Batch, Clusters, FleetBatch, LogLine, Open, Script, Unexpected

MAPS = windlass.Kind.of("v1/ConfigMap")


def config_map(name: str, **data: str) -> windlass.Object:
    made = windlass.new_object(MAPS, f"default/{name}")
    return made | ({"data": data} if data else {})


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


class Scripts(unittest.TestCase):
    def test_calls_are_answered_in_their_order(self) -> None:
        def body(request: windlass.Request, cluster: windlass.Cluster) -> windlass.Action:
            self.assertEqual(str(request), "cluster://alpha/default/a")
            self.assertEqual(cluster.name, "alpha")
            self.assertIsNone(cluster.get(MAPS, request.key))
            self.assertEqual(windlass.config(), {"color": "red"})
            self.assertEqual(windlass.timestamp(windlass.now()), "2026-01-31T09:30:00.000Z")
            names = [each["metadata"]["name"] for each in cluster.list_all(MAPS, labels="x", page_size=1)]
            self.assertEqual(names, ["b", "c"])
            self.assertFalse(cluster.delete(MAPS, request.key))
            with self.assertRaises(windlass.Conflict):
                cluster.apply(config_map("a"))
            cluster.event(config_map("a"), "Painted", "painted red")
            log.info("painted", color="red", times=2)
            return windlass.requeue_after(2)

        script = Script(config={"color": "red"})
        script.expect(Get(MAPS, "default/a"))
        script.expect(List(MAPS, labels="x", limit=1), returns=Page([config_map("b")], "more"))
        script.expect(List(MAPS, labels="x", limit=1, continue_token="more"), returns=Page([config_map("c")]))
        script.expect(Delete(MAPS, "default/a"), raises=windlass.NotFound())
        script.expect(Apply(config_map("a")), raises=windlass.Conflict("owned by kubectl"))
        self.assertEqual(script.reconcile(Guest(body), "default/a"), windlass.requeue_after(2))
        self.assertEqual([(event.reason, event.warning) for event in script.events], [("Painted", False)])
        self.assertEqual(script.logs, [LogLine("info", "painted", {"color": "red", "times": "2"})])

    def test_an_unexpected_call_fails_even_where_the_guest_catches_all(self) -> None:
        def body(_request: windlass.Request, cluster: windlass.Cluster) -> None:
            try:
                cluster.get(MAPS, "default/b")
            except Exception:
                pass

        for expected in ([], [Get(MAPS, "default/a")], [Get(MAPS, "default/b", live=True)]):
            script = Script()
            for call in expected:
                script.expect(call)
            with self.assertRaisesRegex(Unexpected, "unexpected call"):
                script.reconcile(Guest(body), "default/a")
        script = Script()
        script.expect(Get(MAPS, "default/b"), cluster="beta")
        with self.assertRaisesRegex(Unexpected, "in beta: Get"):
            script.reconcile(Guest(body), "default/a")

    def test_what_is_left_over_fails(self) -> None:
        script = Script()
        script.expect(Get(MAPS, "default/a"))
        with self.assertRaisesRegex(Unexpected, "expects further calls"):
            script.reconcile(Guest(lambda request, cluster: None), "default/a")

    def test_a_failure_of_the_guest_comes_through(self) -> None:
        def body(request: windlass.Request, cluster: windlass.Cluster) -> None:
            raise windlass.Terminal("never")

        with self.assertRaisesRegex(windlass.Terminal, "never"):
            Script().reconcile(Guest(body), "default/a")

    def test_what_is_left_over_when_the_guest_fails_is_told_once(self) -> None:
        def body(request: windlass.Request, cluster: windlass.Cluster) -> None:
            raise windlass.Terminal("never")

        def asks(request: windlass.Request, cluster: windlass.Cluster) -> None:
            cluster.get(MAPS, request.key)

        script = Script()
        script.expect(Get(MAPS, "default/a"))
        with self.assertRaisesRegex(Unexpected, "expects further calls") as caught:
            script.reconcile(Guest(body), "default/a")
        self.assertIsInstance(caught.exception.__cause__, windlass.Terminal)
        for _ in range(2):  # calls and failures of one run do not affect the next
            with self.assertRaisesRegex(Unexpected, "no further call"):
                script.reconcile(Guest(asks), "default/a")
        self.assertEqual(script.reconcile(Guest(lambda request, cluster: None), "default/a"), windlass.DONE)

    def test_a_batch_is_answered_in_its_order(self) -> None:
        operations = [Get(MAPS, "default/a"), Delete(MAPS, "default/b"), List(MAPS)]
        page = Page([config_map("a")])

        def body(_request: windlass.Request, cluster: windlass.Cluster) -> None:
            self.assertEqual(cluster.batch(operations), [config_map("a"), None, page])

        script = Script()
        script.expect(Batch(operations), returns=[config_map("a"), None, page])
        script.reconcile(Guest(body), "default/a")

    def test_an_error_in_a_batch_is_raised_or_returned(self) -> None:
        operations = [Get(MAPS, "default/a"), Apply(config_map("b"))]
        conflict = windlass.Conflict("owned by kubectl")

        def body(_request: windlass.Request, cluster: windlass.Cluster) -> None:
            self.assertEqual(cluster.batch(operations, return_errors=True), [None, conflict])
            with self.assertRaises(windlass.Conflict):
                cluster.batch(operations)

        script = Script()
        for _ in range(2):
            script.expect(Batch(operations), returns=[None, conflict])
        # Copies of an exception are not equal; the one that stands in the answer is.
        conflict = script._steps[0].answer[1]
        script._steps[1].answer[1] = conflict
        script.reconcile(Guest(body), "default/a")

    def test_other_clusters_are_scripted_too(self) -> None:
        def body(_request: windlass.Request, _cluster: windlass.Cluster) -> None:
            self.assertEqual([known.name for known in fleet.clusters("tier=edge")], ["beta"])
            with fleet.open("beta") as beta:
                self.assertEqual(beta.get(MAPS, "default/a"), config_map("a"))
            with self.assertRaisesRegex(AssertionError, "closed"):
                beta.get(MAPS, "default/a")
            with self.assertRaises(windlass.ClusterGone):
                fleet.open("gamma")
            self.assertEqual(fleet.batch([("beta", Get(MAPS, "default/a"))]), [None])

        script = Script()
        script.expect(Clusters("tier=edge"), returns=[windlass.ClusterInfo("beta", {"tier": "edge"})])
        script.expect(Open("beta"))
        script.expect(Get(MAPS, "default/a"), returns=config_map("a"), cluster="beta")
        script.expect(Open("gamma"), raises=windlass.ClusterGone())
        script.expect(FleetBatch([("beta", Get(MAPS, "default/a"))]), returns=[None])
        script.reconcile(Guest(body), "default/a")

    def test_a_mapper_answers_requests(self) -> None:
        def body(
            cluster: windlass.Cluster, kind: windlass.Kind, objects: list[windlass.Object]
        ) -> Iterable[windlass.Request]:
            return (windlass.Request(cluster.name, windlass.key_of(each)) for each in objects)

        requests = Script().map(Guest(body), MAPS, config_map("a"), config_map("b"))
        self.assertEqual([str(each) for each in requests], ["cluster://alpha/default/a", "cluster://alpha/default/b"])

    def test_a_description_that_the_host_would_refuse_is_refused(self) -> None:
        two = windlass.Description("t", watches=[windlass.Watch(MAPS), windlass.Watch("v1/Secret")])
        none = windlass.Description("t", watches=[windlass.Watch(MAPS, windlass.Enqueue.SAME_NAME)])
        for wrong in (two, none):
            self.assertRaises(Unexpected, Script().describe, Guest(lambda: wrong))
        good = windlass.Description("t", watches=[windlass.Watch(MAPS)])
        self.assertEqual(Script().describe(Guest(lambda: good)), good)
