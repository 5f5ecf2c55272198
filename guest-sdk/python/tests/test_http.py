"""Calls of servers that are no API servers."""

import json
import unittest
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import windlass
from windlass import entry, http, wire
from windlass.testing import Fleet, Script, Unexpected

URL = "https://dns.example.com/v1"


class Guest(windlass.Reconciler):
    """Runs the function of a test."""

    def __init__(self, body: Callable[[], Any]) -> None:
        self.body = body

    def describe(self) -> windlass.Description:
        return windlass.Description("asks")

    def reconcile(self, request: windlass.Request, cluster: windlass.Cluster) -> windlass.Action | None:
        return self.body()  # type: ignore[no-any-return]


def served(answer: Callable[[http.Request], http.Response], call: Callable[[], Any]) -> Any:
    fleet = Fleet()
    fleet.serve(answer)
    with fleet.running():
        return call()


def echo(asked: http.Request) -> http.Response:
    """Answers what it gets."""
    return http.Response(
        json=[asked.method, asked.url, dict(asked.headers), asked.body.decode("latin-1"), asked.timeout_ms]
    )


class Http(unittest.TestCase):
    def test_a_test_answers_what_a_guest_asks(self) -> None:
        def answer(asked: http.Request) -> http.Response:
            self.assertEqual((asked.method, asked.json(), asked.text), ("POST", {"a": [1]}, '{"a":[1]}'))
            return http.Response(201, headers={"ETag": ",".join(asked.headers)}, json={"id": "ü"})

        got = served(answer, lambda: http.post(URL, json={"a": [1]}, headers={"Idempotency-Key": "k"}))
        self.assertEqual((got.status, got.ok, got.headers["etag"]), (201, True, "idempotency-key,content-type"))
        self.assertIs(got.success(), got)
        self.assertEqual(got.json(), {"id": "ü"})

    def test_each_function_sends_its_method_and_what_it_is_given(self) -> None:
        calls: list[tuple[Callable[[], http.Response], list[Any]]] = [
            (lambda: http.get(URL, timeout=1.1), ["GET", URL, {}, "", 1100]),
            (lambda: http.put(URL, data="ü"), ["PUT", URL, {}, "\u00c3\u00bc", None]),
            (
                lambda: http.patch(URL, data=b"\x00\xff", timeout=timedelta(minutes=1)),
                ["PATCH", URL, {}, "\x00\xff", 60000],
            ),
            (lambda: http.delete(URL), ["DELETE", URL, {}, "", None]),
            (
                lambda: http.post(URL, data={"grant type": "a&b=ü", "x": "~"}),
                [
                    "POST",
                    URL,
                    {"content-type": "application/x-www-form-urlencoded"},
                    "grant+type=a%26b%3D%C3%BC&x=~",
                    None,
                ],
            ),
            (
                lambda: http.request("HEAD", URL, headers=[("Accept", "a"), ("accept", "b")]),
                ["HEAD", URL, {"accept": "a, b"}, "", None],
            ),
            (
                lambda: http.post(URL, json="a", headers={"Content-Type": "x/y"}),
                ["POST", URL, {"content-type": "x/y"}, '"a"', None],
            ),
        ]
        for call, sent in calls:
            self.assertEqual(served(echo, call).json(), sent)

    def test_without_answers_every_call_is_denied(self) -> None:
        with Fleet().running(), self.assertRaisesRegex(windlass.Denied, r"Fleet\.serve"):
            http.get(URL)
        with self.assertRaisesRegex(RuntimeError, "windlass.testing.Fleet"):
            http.get(URL)

    def test_what_the_test_raises_is_the_error_of_the_call(self) -> None:
        def fails(asked: http.Request) -> http.Response:
            raise windlass.Timeout("no answer")

        with self.assertRaises(windlass.Timeout):
            served(fails, lambda: http.get(URL))

    def test_a_status_becomes_an_error_where_the_guest_wants_one(self) -> None:
        for answer, message, patience in [
            (
                http.Response(429, headers={"Retry-After": " 7 "}, data=" too many "),
                "the server answers 429: too many",
                7,
            ),
            (
                http.Response(503, headers={"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}),
                "the server answers 503",
                None,
            ),
            (http.Response(500, data="ä" * 1000), "the server answers 500: " + "ä" * 200, None),
            (http.Response(404, data=b"\xff"), "the server answers 404: \ufffd", None),
        ]:
            with self.assertRaises(http.HttpStatusError) as caught:
                answer.success()
            error = caught.exception
            self.assertEqual((str(error), error.status, error.retry_after), (message, answer.status, patience))
            self.assertEqual(entry.failed(error), message)
        self.assertTrue(http.Response(204).success().ok)
        self.assertRaises(ValueError, http.Response(data="<html>").json)

    def test_a_guest_waits_as_the_server_says(self) -> None:
        def body() -> None:
            try:
                http.get(URL).success()
            except http.HttpStatusError as error:
                raise windlass.NotReady(str(error), error.retry_after or 10) from None

        script = Script()
        script.expect(http.Request("GET", URL), returns=http.Response(429, headers={"retry-after": "7"}))
        self.assertEqual(script.reconcile(Guest(body), "default/a"), windlass.requeue_after(7))

    def test_a_script_has_calls_of_servers_in_their_order(self) -> None:
        def body() -> None:
            self.assertEqual(http.post(URL, json={"a": 1}).status, 201)
            self.assertRaises(windlass.Timeout, http.get, URL)

        script = Script()
        script.expect(http.Request("POST", URL, json={"a": 1}), returns=http.Response(201))
        script.expect(http.Request("GET", URL), raises=windlass.Timeout("no answer"))
        script.reconcile(Guest(body), "default/a")
        script.expect(http.Request("POST", URL, json={"a": 2}), returns=http.Response(201))
        with self.assertRaisesRegex(Unexpected, r"Request\(method='POST'"):
            script.reconcile(Guest(body), "default/a")
        script.expect(http.Request("POST", URL, json={"a": 1}))
        self.assertRaises(TypeError, script.reconcile, Guest(body), "default/a")

    def test_misuse_is_refused_before_anything_is_sent(self) -> None:
        def never(asked: http.Request) -> http.Response:
            raise AssertionError("it is sent")

        wrong: Any = {"a": 1}
        for call, message in [
            (lambda: http.get(wrong), "url: expected a text"),
            (lambda: http.post(URL, json=1, data="1"), "json: there is data too"),
            (lambda: http.post(URL, data=[1]), "what becomes JSON is json="),  # type: ignore[arg-type]
            (lambda: http.post(URL, data=wrong), r"data\['a'\]: expected a text"),
            (lambda: http.post(URL, json=float("nan")), "not JSON compliant"),
            (lambda: http.get(URL, headers=wrong), r"headers\[0\]\[1\]: expected a text"),
            (lambda: http.get(URL, timeout=-1), "a timeout is not -1: give seconds from 0 on"),
        ]:
            with self.assertRaisesRegex((TypeError, ValueError), message):
                served(never, call)
        for answer in (None, 200, {"status": 200}):
            with self.assertRaisesRegex(TypeError, "windlass.http.Response"):
                served(lambda asked, answer=answer: answer, lambda: http.get(URL))  # type: ignore[misc]
        self.assertRaises(TypeError, Fleet().serve, {"status": 200})

    def test_a_process_sends_the_bytes_of_a_body_as_numbers(self) -> None:
        asked = http.Request("PUT", URL, headers={"A": "b"}, data=b"\x00\xff", timeout=0.005)
        sent = {
            "method": "PUT",
            "url": URL,
            "headers": [["a", "b"]],
            "body": [0, 255],
            "timeout_ms": 5,
            "options": [],
        }
        self.assertEqual(json.loads(json.dumps(wire.http_request(asked))), sent)
        got = wire.http_response({"Ok": {"status": 200, "headers": [["a", "b"]], "body": [1, 254]}})
        self.assertEqual(got, http.Response(headers={"A": "b"}, data=b"\x01\xfe"))
