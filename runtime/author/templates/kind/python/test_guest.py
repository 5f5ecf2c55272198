"""Tests of the guest, in a cluster in memory: plain `python3 -m unittest`."""

import unittest

from guest import CONFIG_MAP, Guest
from windlass import DONE, new_object
from windlass.testing import Fleet

OWN = "{{group}}/{{version}}/{{kind}}"
KEY = "default/example"
CONFIG, COPY = "default/example-{{singular}}", "copies/default.example-{{singular}}"


class GuestTest(unittest.TestCase):
    def setUp(self) -> None:
        """Makes a cluster with an object that has a copy."""
        self.alpha = Fleet().cluster("alpha")
        self.alpha.put(new_object("v1/Namespace", "copies"))
        self.alpha.put(new_object(OWN, KEY) | {"spec": {"text": "hello", "copyTo": "copies"}})

    def text(self, key: str) -> str | None:
        """The text of a ConfigMap."""
        found = self.alpha.get(CONFIG_MAP, key)
        return found and found["data"]["text"]

    def test_an_object_has_a_config_map_and_a_copy(self) -> None:
        self.assertEqual(self.alpha.reconcile(Guest(), KEY), DONE)
        self.assertEqual([self.text(CONFIG), self.text(COPY)], ["hello", "hello"])

        found = self.alpha.get(OWN, KEY)
        assert found is not None
        status = found["status"]
        self.assertEqual(status["observedGeneration"], found["metadata"]["generation"])
        self.assertEqual({one["type"]: one["status"] for one in status["conditions"]}["Ready"], "True")

        self.assertEqual(self.alpha.reconciled_writes(Guest(), KEY), 0)

    def test_the_copy_goes_before_the_object(self) -> None:
        self.alpha.reconcile(Guest(), KEY)
        self.alpha.remove(OWN, KEY)
        self.assertIsNotNone(self.alpha.get(OWN, KEY), "the finalizer holds it")

        self.assertEqual(self.alpha.reconcile(Guest(), KEY), DONE)
        self.assertIsNone(self.text(COPY))
        self.assertIsNone(self.alpha.get(OWN, KEY))
