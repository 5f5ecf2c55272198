"""The case about servers that are no API servers. Entry point: call."""

import windlass
from windlass import http, log
from words import NONE, Scene, at, refused


def call(scene: Scene) -> None:
    """Calls that a rule allows, one without an answer, and calls that no rule allows."""
    server = at(scene.primary, "data", "server")
    answer = http.get(f"{server}/status/429", headers={"x-key": "k"})
    log.info("answered", status=answer.status, wait=answer.headers.get("retry-after", NONE), body=answer.text)
    try:
        answer.success()
    except http.HttpStatusError as failed:
        wait = NONE if failed.retry_after is None else round(failed.retry_after * 1000)
        log.info("failed", status=failed.status, message=failed, wait=wait)
    headers = {"x-key": "k", "authorization": "own"}
    posted = http.post(f"{server}/body", json={"count": 3, "text": "żółty"}, headers=headers).success()
    got = posted.json()
    content_type = posted.headers.get("content-type", NONE)
    log.info("posted", status=posted.status, type=content_type, count=got["count"], text=got["text"])
    for name, method, url, timeout in (
        ("late", "GET", f"{server}/never", 0.1),
        ("method", "DELETE", f"{server}/body", None),
        ("host", "GET", "https://api.example.com/v1", None),
    ):
        try:
            http.request(method, url, timeout=timeout)
        except windlass.ApiError as error:
            refused(name, error)
