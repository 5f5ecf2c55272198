"""The layer between the SDK and the contract's generated modules, on the generated modules' own types."""

import json
import sys
import unittest
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent / "bindings"))

from componentize_py_types import Err, Ok
from wit_world.exports import reconciler as wit_reconciler
from wit_world.imports import client as wit
from wit_world.imports import fleet as wit_fleet
from wit_world.imports import http as wit_http
from wit_world.imports import log as wit_log
from wit_world.imports import types as wit_types

import windlass
from windlass import component, host
from windlass.operations import Apply, Create, Delete, Get, List, Page, Patch, Update

MAPS = windlass.Kind.of("v1/ConfigMap")
WIT_MAPS = wit_types.GroupVersionKind("", "v1", "ConfigMap")
WIT_A = wit_types.ObjectKey("default", "a")
A: windlass.Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}


class Handle(wit.Cluster):
    """A cluster's handle that records its calls."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answer: Any = None
        self.closed = 0

    def _ask(self, *call: Any) -> Any:
        self.asked.append(call)
        if isinstance(self.answer, Err):
            raise self.answer
        return self.answer

    def name(self) -> str:
        return "alpha"

    def __getattribute__(self, name: str) -> Any:
        if name in ("get", "list", "create", "update", "patch", "apply", "delete", "delete_collection", "batch"):
            return lambda *arguments: self._ask(name, *arguments)
        if name == "record_event":
            return lambda event: self.asked.append((name, event))
        return super().__getattribute__(name)

    def __exit__(self, *_: object) -> None:
        self.closed += 1


class Guest(windlass.Reconciler, windlass.Mapper):
    """Runs the function of a test."""

    body: Any = None

    def describe(self) -> windlass.Description:
        return Guest.body()  # type: ignore[no-any-return]

    def reconcile(self, request: windlass.Request, cluster: windlass.Cluster) -> windlass.Action | None:
        return Guest.body(request, cluster)  # type: ignore[no-any-return]

    def map(
        self, cluster: windlass.Cluster, kind: windlass.Kind, objects: list[windlass.Object]
    ) -> Iterable[windlass.Request]:
        return Guest.body(cluster, kind, objects)  # type: ignore[no-any-return]


class Component(unittest.TestCase):
    def setUp(self) -> None:
        self.addCleanup(host.install, host.install(None))
        self.handle = Handle()
        self.lines: list[Any] = []
        self.restore = wit_log.write
        wit_log.write = lambda *line: self.lines.append(line)
        self.addCleanup(setattr, wit_log, "write", self.restore)
        self.exports = component.exports(f"{__name__}:Guest", mapper=True)

    def reconcile(self, body: Any) -> Any:
        Guest.body = staticmethod(body)
        return self.exports[0]().reconcile(wit_types.Request("alpha", WIT_A), self.handle)

    def ask(self, call: Any, answer: Any = None) -> tuple[Any, Any]:
        """The arguments of the contract's function, and the results that the guest got."""
        self.handle.answer = answer
        got: list[Any] = []
        self.reconcile(lambda request, cluster: got.append(call(cluster)))
        return self.handle.asked.pop(), got[0]

    def test_an_answer_becomes_an_action(self) -> None:
        self.assertEqual(self.reconcile(lambda request, cluster: None), wit_types.Action_Done())
        self.assertEqual(self.reconcile(lambda request, cluster: windlass.DONE), wit_types.Action_Done())
        self.assertEqual(
            self.reconcile(lambda request, cluster: windlass.requeue_after(0)), wit_types.Action_RequeueAfterMs(0)
        )
        self.assertEqual(self.handle.closed, 3, "the handle is given back")

    def test_an_exception_becomes_a_failure(self) -> None:
        def failing(error: Exception) -> Any:
            def body(request: windlass.Request, cluster: windlass.Cluster) -> None:
                raise error

            with self.assertRaises(Err) as caught:
                self.reconcile(body)
            return caught.exception.value

        self.assertEqual(failing(windlass.Terminal("never")), wit_types.Failure_Terminal("never"))
        self.assertEqual(failing(windlass.Retry("later")), wit_types.Failure_Retry("later"))
        here = r"\nat body .*test_component\.py:[0-9]+\nat reconcile .*test_component\.py:[0-9]+"
        self.assertRegex(failing(windlass.Conflict("changed")).value, f"^conflict: changed{here}$")
        self.assertRegex(failing(KeyError("data")).value, f"^KeyError: 'data'{here}$")
        self.assertRegex(failing(ValueError("\ud800")).value, f"^ValueError: \ufffd{here}$")
        caused = ValueError("no number")
        caused.__cause__ = KeyError("data")
        self.assertRegex(failing(caused).value, f"^ValueError: no number{here}\nafter KeyError: 'data'$")
        self.assertEqual(self.handle.closed, 6, "the handle is given back")

    def test_what_is_no_action_is_a_failure(self) -> None:
        with self.assertRaises(Err) as caught:
            self.reconcile(lambda request, cluster: True)
        self.assertIn("answered True", caught.exception.value.value)

    def test_calls_carry_their_arguments_and_answers(self) -> None:
        text = json.dumps(A)
        compact = json.dumps(A, separators=(",", ":"))
        self.assertEqual(
            self.ask(lambda c: c.get(MAPS, "default/a", live=True), text),
            (("get", WIT_MAPS, WIT_A, wit.GetOptions(wit.ReadMode.LIVE, wit.Projection.FULL, None)), A),
        )
        self.assertIsNone(self.ask(lambda c: c.get(MAPS, "default/a", subresource="status"))[1])
        self.assertEqual(
            self.ask(
                lambda c: c.list(MAPS, namespace="default", index=("by", "a"), limit=2, metadata_only=True),
                wit.ListPage([text], "more", "7"),
            ),
            (
                (
                    "list",
                    WIT_MAPS,
                    wit.ListOptions(
                        "default", None, None, ("by", "a"), 2, None, wit.ReadMode.CACHED, wit.Projection.METADATA
                    ),
                ),
                Page([A], "more", "7"),
            ),
        )
        self.assertEqual(
            self.ask(lambda c: c.create(A, dry_run=True), text),
            (("create", WIT_MAPS, compact, wit.WriteOptions(None, True)), A),
        )
        self.assertEqual(
            self.ask(lambda c: c.update(A, subresource="status"), text)[0],
            ("update", WIT_MAPS, compact, wit.WriteOptions("status", False)),
        )
        self.assertEqual(
            self.ask(lambda c: c.patch(MAPS, "default/a", [1], type="json-patch"), text)[0],
            ("patch", WIT_MAPS, WIT_A, wit.PatchType.JSON_PATCH, "[1]", wit.WriteOptions(None, False)),
        )
        self.assertEqual(
            self.ask(lambda c: c.apply(A, force=True), text)[0],
            ("apply", WIT_MAPS, compact, wit.ApplyOptions(None, True, False)),
        )
        self.assertEqual(
            self.ask(lambda c: c.delete(MAPS, "default/a", uid="u", propagation="orphan", grace_period=3)),
            (("delete", WIT_MAPS, WIT_A, wit.DeleteOptions("u", None, wit.Propagation.ORPHAN, 3, False)), True),
        )
        self.assertEqual(
            self.ask(
                lambda c: c.delete_collection(MAPS, namespace="default", labels="x", uid="u", resource_version="7")
            )[0],
            (
                "delete_collection",
                WIT_MAPS,
                wit.Selection("default", "x", None),
                wit.DeleteOptions("u", "7", None, None, False),
            ),
        )
        self.assertEqual(
            self.ask(lambda c: c.event(A, "Seen", "seen", warning=True))[0],
            ("record_event", wit.Event(WIT_MAPS, WIT_A, wit.EventType.WARNING, "Seen", "Reconcile", "seen")),
        )

    def test_an_error_of_the_api_is_raised_as_its_class(self) -> None:
        self.handle.answer = Err(
            wit_types.ApiError(wit_types.ApiCode.THROTTLED, 429, "TooManyRequests", "slow down", '{"a":1}', 1500)
        )

        def body(request: windlass.Request, cluster: windlass.Cluster) -> None:
            with self.assertRaises(windlass.Throttled) as caught:
                cluster.get(MAPS, "default/a")
            error = caught.exception
            self.assertEqual(
                (error.http_status, error.reason, error.message, error.details, error.retry_after),
                (429, "TooManyRequests", "slow down", {"a": 1}, 1.5),
            )

        self.reconcile(body)
        for code in wit_types.ApiCode:
            self.handle.answer = Err(wit_types.ApiError(code, 0, "", "", None, None))
            with self.assertRaises(Err) as failed:
                self.reconcile(lambda request, cluster: cluster.get(MAPS, "default/a"))
            said, where = failed.exception.value.value.split("\n", 1)
            self.assertEqual(said, code.name.lower().replace("_", "-") + ": ")
            self.assertRegex(where, r"^at <lambda> .*test_component\.py:[0-9]+\n")

    def test_a_batch_carries_every_operation(self) -> None:
        operations = [
            Get(MAPS, "default/a"),
            List(MAPS),
            Create(A),
            Update(A),
            Patch(MAPS, "default/a", {}),
            Apply(A),
            Delete(MAPS, "default/a"),
        ]
        gone = wit_types.ApiError(wit_types.ApiCode.NOT_FOUND, 404, "NotFound", "", None, None)
        results = [Ok(wit.Reply_Nothing()), Ok(wit.Reply_Page(wit.ListPage([], None, "1")))]
        results += [Ok(wit.Reply_Object(json.dumps(A)))] * 4 + [Err(gone)]
        (_, asked), answered = self.ask(lambda c: c.batch(operations, return_errors=True), results)
        self.assertEqual([type(each).__name__ for each in asked][:2], ["Operation_Get", "Operation_List"])
        self.assertEqual([type(each).__name__.removeprefix("Operation_") for each in asked],
                         [type(each).__name__ for each in operations])  # fmt: skip
        self.assertEqual(answered[:-1], [None, Page([], None, "1"), A, A, A, A])
        self.assertIsInstance(answered[-1], windlass.NotFound)

    def test_a_description_is_carried_over(self) -> None:
        Guest.body = staticmethod(
            lambda: windlass.Description(
                "paints",
                watches=[
                    windlass.Watch(MAPS, labels="x", changes=["generation"], metadata_only=True),
                    windlass.Watch(MAPS, windlass.Enqueue.by_index("by"), clusters="local"),
                    windlass.Watch(MAPS, windlass.Enqueue.MAPPED),
                ],
                indexes=[windlass.Index(MAPS, "by", "data.ref")],
            )
        )
        described = self.exports[0]().describe()
        self.assertEqual((described.title, described.primary), ("paints", WIT_MAPS))
        self.assertEqual(
            described.watches[0],
            wit_reconciler.Watch(
                WIT_MAPS,
                wit_reconciler.Enqueue_Primary(),
                wit_reconciler.ClusterScope.AS_CONFIGURED,
                "x",
                None,
                [wit_reconciler.Change.GENERATION],
                True,
                [],
            ),
        )
        self.assertEqual(described.watches[1].enqueue, wit_reconciler.Enqueue_ByIndex("by"))
        self.assertEqual(described.watches[1].clusters, wit_reconciler.ClusterScope.LOCAL)
        self.assertEqual(described.indexes, [wit_reconciler.Index(WIT_MAPS, "by", "data.ref", None, [])])

    def test_a_description_that_fails_says_why(self) -> None:
        Guest.body = staticmethod(lambda: windlass.Description("t", watches=[windlass.Watch(MAPS, clusters="every")]))  # type: ignore[arg-type]
        with self.assertRaises(Err) as caught:
            self.exports[0]().describe()
        told = (
            "^ValueError: clusters: 'every' is none of as-configured, local, provider, all\nat <lambda> test_component"
        )
        self.assertRegex(caught.exception.value, told)

    def test_a_mapper_gets_objects_and_answers_requests(self) -> None:
        mapper = self.exports[1]
        assert mapper is not None
        Guest.body = staticmethod(
            lambda cluster, kind, objects: [windlass.Request(cluster.name, windlass.key_of(each)) for each in objects]
        )
        requests = mapper().map_objects(self.handle, WIT_MAPS, [json.dumps(A)])
        self.assertEqual(requests, [wit_types.Request("alpha", WIT_A)])
        Guest.body = staticmethod(lambda cluster, kind, objects: 1 / 0)
        with self.assertRaises(Err) as caught:
            mapper().map_objects(self.handle, WIT_MAPS, [])
        self.assertRegex(caught.exception.value, "^ZeroDivisionError: division by zero\nat <lambda> test_component")

    def test_the_fleet_is_reached_through_the_world(self) -> None:
        for name in ("clusters", "open", "batch"):
            self.addCleanup(setattr, wit_fleet, name, getattr(wit_fleet, name))
        known: Any = wit_fleet
        known.clusters = lambda labels: [wit_fleet.ClusterInfo("beta", [("tier", "edge")], [], True)]
        known.open = lambda name: self.handle
        known.batch = lambda asked: [Ok(wit.Reply_Nothing()) for _ in asked]

        def body(request: windlass.Request, cluster: windlass.Cluster) -> None:
            self.assertEqual(windlass.fleet.clusters(), [windlass.ClusterInfo("beta", {"tier": "edge"})])
            with windlass.fleet.open("beta") as beta:
                self.assertEqual(beta.name, "alpha")
            self.assertRaises(RuntimeError, beta.get, MAPS, "default/a")
            self.assertEqual(windlass.fleet.batch([("beta", Get(MAPS, "default/a"))]), [None])

        self.reconcile(body)

    def test_servers_are_reached_through_the_world(self) -> None:
        self.addCleanup(setattr, wit_http, "send", wit_http.send)
        asked: list[Any] = []
        known: Any = wit_http

        def answers(request: wit_http.Request) -> wit_http.Response:
            asked.append(request)
            return wit_http.Response(201, [("etag", "1")], b"[1]")

        def refuses(request: wit_http.Request) -> wit_http.Response:
            raise Err(wit_types.ApiError(wit_types.ApiCode.DENIED, 0, "Denied", "no rule", None, None))

        def body(request: windlass.Request, cluster: windlass.Cluster) -> None:
            known.send = answers
            answer = windlass.http.post("https://a.example.com/", json={"a": 1}, timeout=2)
            self.assertEqual((answer.status, answer.headers["ETag"], answer.json()), (201, "1", [1]))
            known.send = refuses
            with self.assertRaisesRegex(windlass.Denied, "no rule"):
                windlass.http.get("https://a.example.com/")

        self.reconcile(body)
        headers = [("content-type", "application/json")]
        self.assertEqual(asked, [wit_http.Request("POST", "https://a.example.com/", headers, b'{"a":1}', 2000, [])])

    def test_a_world_without_servers_is_told(self) -> None:
        with mock.patch.object(component, "wit_http", None), self.assertRaisesRegex(Err, "world = .*http-reconcile"):
            self.reconcile(lambda request, cluster: windlass.http.get("https://a.example.com/"))

    def test_the_entry_is_found_or_its_absence_explained(self) -> None:
        self.assertEqual(component.exports(__name__, mapper=False)[1], None)
        with self.assertRaisesRegex(TypeError, "found none"):
            component.exports("windlass.objects", mapper=False)
