"""Servers that are no API servers, within ``spec.http`` of the Reconciler. Entry points: :func:`get`, :func:`post`, and
:func:`request` for any method.

They need a world that has ``http`` (``[tool.windlass] world = "http-reconcile"``). Credentials are the operator's: the host adds
headers from Secrets, so that the guest needs none. ::

    from windlass import Terminal, http

    answer = http.get(f"https://dns.example.com/v1/zones/{name}")
    if answer.status == 404:
        raise Terminal(f"there is no zone {name}")
    zone = answer.success().json()
    http.post(f"https://dns.example.com/v1/zones/{zone['id']}/records", json={"address": address}).success()

An answer of any status is an answer. Every function raises :class:`windlass.ApiError` when there is none: :class:`windlass.Denied`
when no rule allows the call, :class:`windlass.Timeout`, :class:`windlass.Unavailable`.

In a test :meth:`windlass.testing.Fleet.serve` answers.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from .errors import HttpStatusError
from .host import current
from .http_messages import Data, Headers, HeadersInit, Message, Request, Response

__all__ = [
    "Data",
    "Headers",
    "HeadersInit",
    "HttpStatusError",
    "Message",
    "Request",
    "Response",
    "delete",
    "get",
    "patch",
    "post",
    "put",
    "request",
]


def request(
    method: str,
    url: str,
    *,
    headers: HeadersInit | None = None,
    json: Any = None,
    data: Data | None = None,
    timeout: timedelta | float | None = None,
) -> Response:
    """Sends a request of any method, and waits for the answer.

    The body is ``json``, or ``data``: bytes, a text, or a dictionary, which is sent as a form. JSON and a form set their
    ``content-type`` too. ``timeout`` (seconds, or a timedelta) bounds the time for the whole call. Default: 30 s, and 10 s, which is
    the most, for all but GET and HEAD.
    """
    return current().http(Request(method, url, headers=headers, json=json, data=data, timeout=timeout))


def get(url: str, *, headers: HeadersInit | None = None, timeout: timedelta | float | None = None) -> Response:
    """Asks for a URL, as :func:`request`."""
    return request("GET", url, headers=headers, timeout=timeout)


def post(
    url: str,
    *,
    headers: HeadersInit | None = None,
    json: Any = None,
    data: Data | None = None,
    timeout: timedelta | float | None = None,
) -> Response:
    """Sends a POST, as :func:`request`."""
    return request("POST", url, headers=headers, json=json, data=data, timeout=timeout)


def put(
    url: str,
    *,
    headers: HeadersInit | None = None,
    json: Any = None,
    data: Data | None = None,
    timeout: timedelta | float | None = None,
) -> Response:
    """Sends a PUT, as :func:`request`."""
    return request("PUT", url, headers=headers, json=json, data=data, timeout=timeout)


def patch(
    url: str,
    *,
    headers: HeadersInit | None = None,
    json: Any = None,
    data: Data | None = None,
    timeout: timedelta | float | None = None,
) -> Response:
    """Sends a PATCH, as :func:`request`."""
    return request("PATCH", url, headers=headers, json=json, data=data, timeout=timeout)


def delete(
    url: str,
    *,
    headers: HeadersInit | None = None,
    json: Any = None,
    data: Data | None = None,
    timeout: timedelta | float | None = None,
) -> Response:
    """Sends a DELETE, as :func:`request`."""
    return request("DELETE", url, headers=headers, json=json, data=data, timeout=timeout)
