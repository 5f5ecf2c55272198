"""What the values of the SDK are: kinds, keys, operations, errors."""

import unittest

import windlass
from windlass.operations import Apply, Get, List


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
        self.assertEqual(windlass.requeue_after(1e12).requeue_after_ms, 2**32 - 1)
        for wrong in (-1, float("nan")):
            self.assertRaises(ValueError, windlass.requeue_after, wrong)

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
