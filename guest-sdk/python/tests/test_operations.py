"""The values of the SDK: kinds, keys, operations, errors."""

import unittest
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import windlass
from windlass.operations import Apply, Delete, DeleteCollection, Get, List, Patch


class Words(unittest.TestCase):
    def test_kinds_and_keys_are_read_and_printed_as_people_write_them(self) -> None:
        for text in ("v1/ConfigMap", "apps/v1/Deployment"):
            self.assertEqual(str(windlass.Kind.of(text)), text)
        self.assertEqual(windlass.Kind.of("apps/v1/Deployment"), windlass.Kind("apps", "v1", "Deployment"))
        self.assertEqual(windlass.Kind.of("v1/ConfigMap").api_version, "v1")
        for text in ("default/a", "a"):
            self.assertEqual(str(windlass.Key.of(text)), text)
        self.assertEqual(windlass.Key.of("default/a").sibling("b"), windlass.Key("default", "b"))

    def test_what_is_no_kind_and_no_key_is_refused(self) -> None:
        for text in ("ConfigMap", "a/b/c/d", ""):
            self.assertRaises(ValueError, windlass.Kind.of, text)
        for text in ("", "a/", "/a", "a/b/c"):
            self.assertRaises(ValueError, windlass.Key.of, text)

    def test_an_operation_is_the_same_however_its_kind_and_key_are_written(self) -> None:
        self.assertEqual(
            Get("v1/ConfigMap", "default/a"), Get(windlass.Kind("", "v1", "ConfigMap"), windlass.Key("default", "a"))
        )
        self.assertNotEqual(Get("v1/ConfigMap", "default/a"), Get("v1/ConfigMap", "default/a", live=True))
        self.assertEqual(List("v1/Pod").kind, windlass.Kind("", "v1", "Pod"))

    def test_a_delay_is_whole_milliseconds_within_the_contract(self) -> None:
        self.assertEqual(windlass.requeue_after(1.5).requeue_after_ms, 1500)
        self.assertEqual(windlass.requeue_after(1.1).requeue_after_ms, 1100)
        self.assertEqual(windlass.requeue_after(timedelta(milliseconds=7, microseconds=1)).requeue_after_ms, 8)
        for short in (0.0004, 1e-9, timedelta(microseconds=1)):
            self.assertEqual(windlass.requeue_after(short).requeue_after_ms, 1)
        self.assertEqual(windlass.requeue_after(0).requeue_after_ms, 0)
        for long in (1e12, float("inf"), timedelta.max):
            self.assertEqual(windlass.requeue_after(long).requeue_after_ms, 2**32 - 1)
        for wrong in (-1, float("nan")):
            self.assertRaises(ValueError, windlass.requeue_after, wrong)

    def test_a_request_prints_its_cluster_percent_encoded(self) -> None:
        request = windlass.Request("prod/eu ż", windlass.Key("default", "a"))
        self.assertEqual(str(request), "cluster://prod%2Feu%20%C5%BC/default/a")

    def test_what_the_contract_cannot_carry_is_refused_when_it_is_made(self) -> None:
        maps: Any = windlass.Kind.of("v1/ConfigMap")
        wrong: list[tuple[type[Exception], str, Callable[[], Any]]] = [
            (TypeError, "labels: expected a text, got {'a': 'b'}", lambda: List(maps, labels={"a": "b"})),  # type: ignore[arg-type]
            (ValueError, "limit: expected a whole number from 0 to 4294967295, got -1", lambda: List(maps, limit=-1)),
            (TypeError, "limit: expected a whole number, got 1.5", lambda: List(maps, limit=1.5)),  # type: ignore[arg-type]
            (ValueError, "index: expected a name and a value, got 1 texts", lambda: List(maps, index=("a",))),  # type: ignore[arg-type]
            (TypeError, "index: expected a list, got 'ab'", lambda: List(maps, index="ab")),  # type: ignore[arg-type]
            (TypeError, "live: expected True or False, got 'yes'", lambda: Get(maps, "a", live="yes")),  # type: ignore[arg-type]
            (ValueError, "grace_period: .* got 8589934592", lambda: Delete(maps, "a", grace_period=2**33)),
            (ValueError, "propagation: 'Orphan' is none of background", lambda: Delete(maps, "a", propagation="Orphan")),  # type: ignore[arg-type]
            (ValueError, "type: 'json' is none of merge", lambda: Patch(maps, "a", {}, type="json")),  # type: ignore[arg-type]
            (TypeError, "uid: expected a text, got 7", lambda: DeleteCollection(maps, uid=7)),  # type: ignore[arg-type]
            (TypeError, "object: expected a dictionary, got 'x'", lambda: Apply("x")),  # type: ignore[arg-type]
            (TypeError, "name: expected a text, got 7", lambda: windlass.Key("ns", 7)),  # type: ignore[arg-type]
            (TypeError, "key: expected a text, got 7", lambda: Get(maps, 7)),  # type: ignore[arg-type]
            (TypeError, "kind: expected a text, got None", lambda: Get(None, "a")),  # type: ignore[arg-type]
            (TypeError, "version: expected a text, got 1", lambda: windlass.Kind("", 1, "A")),  # type: ignore[arg-type]
            (TypeError, "cluster: expected a text, got None", lambda: windlass.Request(None, "a")),  # type: ignore[arg-type]
            (TypeError, "requeue_after_ms: expected a whole number, got 1.5", lambda: windlass.Action(1.5)),  # type: ignore[arg-type]
            (ValueError, "requeue_after_ms: .* got 4294967296", lambda: windlass.Action(2**32)),
            (TypeError, "labels: expected a text, got \\['a'\\]", lambda: windlass.Watch(maps, labels=["a"])),  # type: ignore[arg-type]
            (TypeError, "enqueue: expected a windlass.Enqueue, got 'primary'", lambda: windlass.Watch(maps, "primary")),  # type: ignore[arg-type]
            (TypeError, "changes: expected a list, got 'status'", lambda: windlass.Watch(maps, changes="status")),  # type: ignore[arg-type]
            (ValueError, "changes\\[0\\]: 'spec' is none of", lambda: windlass.Watch(maps, changes=["spec"])),  # type: ignore[list-item]
            (TypeError, "options\\['a'\\]: expected a text, got 1", lambda: windlass.Watch(maps, options={"a": 1})),  # type: ignore[dict-item]
            (TypeError, "index: expected a text, got 7", lambda: windlass.Enqueue.by_index(7)),  # type: ignore[arg-type]
            (TypeError, "path: expected a text, got 7", lambda: windlass.Index(maps, "a", 7)),  # type: ignore[arg-type]
            (TypeError, "title: expected a text, got None", lambda: windlass.Description(None)),  # type: ignore[arg-type]
            (TypeError, "watches\\[0\\]: expected a windlass.Watch", lambda: windlass.Description("t", watches=[maps])),
        ]
        for error, message, make in wrong:
            with self.subTest(message), self.assertRaisesRegex(error, f"^{message}"):
                make()

    def test_half_a_character_becomes_a_replacement_character(self) -> None:
        self.assertEqual(windlass.Key("\udc00", "a\ud83c"), windlass.Key("\ufffd", "a\ufffd"))
        self.assertEqual(Get("v1/ConfigMap", "żółty").key, windlass.Key(None, "żółty"))

    def test_every_code_has_its_class(self) -> None:
        for code in windlass.ApiCode:
            self.assertIs(windlass.ApiError.of(code).code, code)
        error = windlass.Conflict("the object has changed", http_status=409)
        self.assertEqual((str(error), error.reason), ("conflict: the object has changed", "conflict"))


class Objects(unittest.TestCase):
    def test_a_new_object_names_its_kind_and_key(self) -> None:
        deployment = windlass.new_object("apps/v1/Deployment", "default/a")
        self.assertEqual(
            deployment,
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "default"}},
        )
        self.assertEqual(windlass.kind_of(deployment), windlass.Kind.of("apps/v1/Deployment"))
        self.assertEqual(windlass.key_of(deployment), windlass.Key.of("default/a"))
        self.assertNotIn("namespace", windlass.new_object("v1/Namespace", "a")["metadata"])
        self.assertRaises(ValueError, windlass.kind_of, {})
        self.assertRaises(ValueError, windlass.key_of, {})

    def test_an_owner_is_found_again_as_the_controller(self) -> None:
        owner = windlass.new_object("v1/ConfigMap", "default/a")
        self.assertRaises(ValueError, windlass.owner_reference, owner)
        owner["metadata"]["uid"] = "u"
        child = windlass.new_object("v1/ConfigMap", "default/b")
        child["metadata"]["ownerReferences"] = [windlass.owner_reference(owner, controller=False)]
        self.assertIsNone(windlass.controller_of(child))
        child["metadata"]["ownerReferences"].append(windlass.owner_reference(owner))
        controller = windlass.controller_of(child)
        assert controller is not None
        self.assertEqual((controller["name"], controller["uid"]), ("a", "u"))
        self.assertFalse(windlass.is_deleting(child))

    def test_a_controller_is_set_beside_other_owners_replaces_itself_and_refuses_another(self) -> None:
        owner = windlass.new_object("v1/ConfigMap", "default/a")
        owner["metadata"]["uid"] = "1"
        child = windlass.new_object("v1/ConfigMap", "default/b")
        other = windlass.owner_reference(owner, controller=False) | {"uid": "2"}
        child["metadata"]["ownerReferences"] = [other]
        for _ in range(2):
            windlass.set_controller(child, owner)
            self.assertEqual(child["metadata"]["ownerReferences"], [other, windlass.owner_reference(owner)])
        owner["metadata"]["uid"] = "3"
        with self.assertRaisesRegex(windlass.Conflict, "ConfigMap default/b has a controller already: ConfigMap a$"):
            windlass.set_controller(child, owner)


class Descriptions(unittest.TestCase):
    def test_the_primary_kind_is_that_of_the_primary_watch(self) -> None:
        watches = [
            windlass.Watch("v1/Secret", windlass.Enqueue.CONTROLLER_OWNER),
            windlass.Watch("v1/ConfigMap"),
        ]
        self.assertEqual(windlass.Description("t", watches=watches).primary, windlass.Kind.of("v1/ConfigMap"))
        self.assertEqual(windlass.Description("t", primary="v1/Pod").primary, windlass.Kind.of("v1/Pod"))
        self.assertIsNone(windlass.Description("t").primary)


class Outside(unittest.TestCase):
    def test_without_a_host_the_way_to_a_script_is_named(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "windlass.testing.Script"):
            windlass.config()

    def test_an_operation_names_the_kind_of_its_object(self) -> None:
        self.assertRaises(ValueError, windlass.kind_of, Apply({"kind": "ConfigMap"}).object)
