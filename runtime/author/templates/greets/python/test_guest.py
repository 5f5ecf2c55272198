"""Tests of the guest, against a script of the calls that it makes: plain `python3 -m unittest`."""

import unittest

from guest import CONFIG_MAP, GREET, Guest
from windlass import DONE, Unavailable, new_object, owner_reference
from windlass.operations import Apply, Get
from windlass.testing import Script

ASKING = new_object(CONFIG_MAP, "default/crew")
ASKING["metadata"] |= {"uid": "1", "labels": {GREET: "world"}}

GREETING = new_object(CONFIG_MAP, "default/crew-greeting")
GREETING["metadata"]["ownerReferences"] = [owner_reference(ASKING)]
GREETING["data"] = {"greeting": "hello, world, from alpha"}


class GuestTest(unittest.TestCase):
    def test_who_asks_is_greeted(self) -> None:
        script = Script("alpha")
        script.expect(Get(CONFIG_MAP, "default/crew"), returns=ASKING)
        script.expect(Get(CONFIG_MAP, "default/crew-greeting"))
        script.expect(Apply(GREETING, force=True), returns=GREETING)
        self.assertEqual(script.reconcile(Guest(), "default/crew"), DONE)
        self.assertEqual([event.reason for event in script.events], ["Greeted"])

    def test_who_is_greeted_already_is_left_alone(self) -> None:
        script = Script("alpha")
        script.expect(Get(CONFIG_MAP, "default/crew"), returns=ASKING)
        script.expect(Get(CONFIG_MAP, "default/crew-greeting"), returns=GREETING)
        script.reconcile(Guest(), "default/crew")

    def test_without_the_label_nobody_is_greeted(self) -> None:
        script = Script("alpha")
        script.expect(Get(CONFIG_MAP, "default/crew"), returns=new_object(CONFIG_MAP, "default/crew"))
        script.reconcile(Guest(), "default/crew")

    def test_a_failed_write_is_tried_again(self) -> None:
        script = Script("alpha")
        script.expect(Get(CONFIG_MAP, "default/crew"), returns=ASKING)
        script.expect(Get(CONFIG_MAP, "default/crew-greeting"))
        script.expect(Apply(GREETING, force=True), raises=Unavailable("no server", http_status=503))
        with self.assertRaises(Unavailable):
            script.reconcile(Guest(), "default/crew")

    def test_it_watches_who_asks(self) -> None:
        self.assertEqual(Script().describe(Guest()).watches[0].labels, GREET)
