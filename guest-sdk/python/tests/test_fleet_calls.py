"""The client of a cluster of a test: batches, pages, dry runs, and what it refuses."""

import unittest
from typing import Any

import windlass
from windlass.operations import Apply, Create, Delete, Get, List
from windlass.testing import Fleet, MemoryCluster

MAPS = windlass.Kind.of("v1/ConfigMap")
SITES = windlass.Kind.of("example.com/v1/Site")


def config_map(name: str, **data: str) -> windlass.Object:
    made = windlass.new_object(MAPS, f"default/{name}")
    return made | ({"data": data} if data else {})


class Calls(unittest.TestCase):
    def alpha(self, *objects: windlass.Object) -> MemoryCluster:
        alpha = Fleet().cluster("alpha")
        for obj in objects:
            alpha.put(obj)
        return alpha

    def test_a_batch_answers_in_its_order(self) -> None:
        alpha = self.alpha(config_map("a"))
        operations = [Get(MAPS, "default/a"), Create(config_map("a")), Delete(MAPS, "default/b"), List(MAPS)]
        found, exists, absent, page = alpha.client.batch(operations, return_errors=True)
        self.assertEqual(found, alpha.get(MAPS, "default/a"))
        self.assertIsInstance(exists, windlass.AlreadyExists)
        self.assertIsInstance(absent, windlass.NotFound)
        self.assertEqual(page.items, [found])
        self.assertEqual(alpha.calls, ["get", "create", "delete", "list"])

    def test_a_batch_with_a_wrong_operation_runs_nothing(self) -> None:
        alpha = self.alpha()
        operations: list[Any] = [Apply(config_map("a")), "no operation"]
        self.assertRaises(TypeError, alpha.client.batch, operations)
        self.assertEqual(alpha.calls, [])

    def test_a_list_goes_through_every_page(self) -> None:
        alpha = self.alpha(*(config_map(f"m{at}") for at in range(7)))
        names = [obj["metadata"]["name"] for obj in alpha.client.list_all(MAPS, page_size=3)]
        self.assertEqual(names, [f"m{at}" for at in range(7)])
        self.assertEqual(alpha.calls, ["list"] * 3)
        with self.assertRaises(windlass.Expired):
            alpha.client.list(MAPS, continue_token="x")
        with self.assertRaises(windlass.Invalid):
            alpha.client.list(MAPS, index=("mine", "x"))

    def test_a_change_of_a_result_or_of_what_was_sent_changes_nothing_that_is_stored(self) -> None:
        alpha = self.alpha()
        sent = config_map("a", x="1")
        copies = [alpha.client.create(sent), alpha.client.get(MAPS, "default/a"), alpha.get(MAPS, "default/a")]
        copies += [*alpha.objects(), *alpha.client.list(MAPS), sent]
        for copy in copies:
            assert copy is not None
            copy["data"]["x"] = "2"
            copy["metadata"]["name"] = "b"
        self.assertEqual((alpha.get(MAPS, "default/a") or {})["data"], {"x": "1"})

    def test_a_dry_run_changes_nothing(self) -> None:
        alpha = self.alpha(config_map("a", x="1"))
        before, client = alpha.objects(), alpha.client
        client.create(config_map("b"), dry_run=True)
        client.apply(config_map("c"), dry_run=True)
        self.assertEqual(client.update(config_map("a", x="2"), dry_run=True)["data"], {"x": "2"})
        self.assertEqual(client.patch(MAPS, "default/a", {"data": {"x": "3"}}, dry_run=True)["data"], {"x": "3"})
        self.assertTrue(client.delete(MAPS, "default/a", dry_run=True))
        client.delete_collection(MAPS, dry_run=True)
        self.assertEqual(alpha.objects(), before)
        self.assertEqual(alpha.writes, 6)

    def test_metadata_can_be_read_alone(self) -> None:
        alpha = self.alpha(config_map("a", x="1"))
        found = alpha.client.get(MAPS, "default/a", metadata_only=True) or {}
        self.assertEqual(sorted(found), ["apiVersion", "kind", "metadata"])
        [listed] = alpha.client.list(MAPS, metadata_only=True)
        self.assertEqual((sorted(listed), listed["metadata"]["uid"]), (sorted(found), found["metadata"]["uid"]))

    def test_what_a_server_does_not_know_is_refused(self) -> None:
        client = self.alpha(config_map("a")).client
        with self.assertRaises(windlass.UnknownKind):
            client.get(MAPS, "default/a", subresource="scale")
        with self.assertRaises(windlass.UnknownKind):
            client.get("example.com/v1/Unknown", "default/a")
        with self.assertRaises(windlass.Invalid) as refused:
            client.create(config_map("A"))
        self.assertEqual(refused.exception.details["causes"][0]["field"], "metadata.name")
        with self.assertRaises(ValueError):
            client.create({"metadata": {"name": "a"}})

    def test_true_and_one_are_different(self) -> None:
        alpha = self.alpha(windlass.new_object(SITES, "default/a") | {"spec": {"size": 1}})
        stored = alpha.client.patch(SITES, "default/a", {"spec": {"size": True}})
        self.assertEqual((stored["metadata"]["generation"], stored["spec"]), (2, {"size": True}))
        same = alpha.client.patch(SITES, "default/a", {"spec": {"size": True}})
        self.assertEqual(same, stored)

    def test_each_call_reaches_the_server(self) -> None:
        client = self.alpha(config_map("a", x="1")).client
        patch = [{"op": "replace", "path": "/data/x", "value": "2"}]
        client.patch(MAPS, "default/a", patch, type="json-patch")
        client.patch(MAPS, "default/a", {"data": {"y": "3"}}, type="strategic-merge")
        [found] = client.list(MAPS, namespace="default", fields="metadata.name=a", live=True)
        self.assertEqual(found["data"], {"x": "2", "y": "3"})
        with self.assertRaises(windlass.Conflict):
            client.delete(MAPS, "default/a", uid="other")
        client.delete(MAPS, "default/a", uid=found["metadata"]["uid"], propagation="background", grace_period=0)
        self.assertIsNone(client.get(MAPS, "default/a"))
        client.create(config_map("b"))
        client.delete_collection(MAPS, namespace="default", fields="metadata.name=b")
        self.assertIsNone(client.get(MAPS, "default/b"))
