"""Requests and answers of :mod:`windlass.http`. Entry points: :class:`Request` and :class:`Response`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from . import checks
from .errors import HttpStatusError

_SHOWN = 200
"""Most characters of a body that an error shows."""
_WIDEST = 4
"""Most bytes of a character."""

_TYPE = "content-type"
_UNESCAPED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")

HeadersInit = Mapping[str, str] | Iterable[tuple[str, str]]
"""Headers as a guest gives them: a dictionary, or pairs."""

Data = str | bytes | bytearray | memoryview | Mapping[str, str]
"""A body as a guest gives it. A dictionary is sent as a form, a text as UTF-8."""


class Headers(Mapping[str, str]):
    """Headers by their names, of which upper and lower case are the same. Several headers of one name are one, with ``", "``
    between them."""

    __slots__ = ("_values",)

    def __init__(self, headers: HeadersInit = ()) -> None:
        """Of a dictionary, or of pairs."""
        self._values: dict[str, str] = {}
        for at, pair in enumerate(headers.items() if isinstance(headers, Mapping) else headers):
            name, value = checks.pair(f"headers[{at}]", pair)
            name = name.lower()
            self._values[name] = f"{self._values[name]}, {value}" if name in self._values else value

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Headers({self._values!r})"


class Message:
    """What a :class:`Request` and a :class:`Response` have in common."""

    __slots__ = ()
    headers: Headers
    """By their names, of which upper and lower case are the same."""
    body: bytes
    """Empty: none."""

    @property
    def text(self) -> str:
        """The body as text. Bytes that are no UTF-8 are replaced."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body, read as JSON. Raises :class:`ValueError` when it is none."""
        return json.loads(self.body)


@dataclass(init=False, slots=True)
class Request(Message):
    """A request. Tests get it, and expect it in a script."""

    method: str
    """``GET``, ``POST``, …"""
    url: str
    """Absolute."""
    headers: Headers
    """Those that the guest gives. The host adds others."""
    body: bytes
    """Empty: none."""
    timeout_ms: int | None
    """In milliseconds; ``None`` is the host's."""

    def __init__(
        self,
        method: str,
        url: str,
        *,
        headers: HeadersInit | None = None,
        json: Any = None,
        data: Data | None = None,
        timeout: timedelta | float | None = None,
    ) -> None:
        """As :func:`windlass.http.request`."""
        self.method = checks.text("method", method)
        self.url = checks.text("url", url)
        self.headers, self.body = _contents(headers, json, data)
        self.timeout_ms = None if timeout is None else checks.milliseconds("a timeout", timeout)


@dataclass(init=False, slots=True)
class Response(Message):
    """An answer of any status."""

    status: int
    """For example 200."""
    headers: Headers
    """Those of the server."""
    body: bytes
    """All of it."""

    def __init__(
        self, status: int = 200, *, headers: HeadersInit | None = None, json: Any = None, data: Data | None = None
    ) -> None:
        """For tests: ``json`` and ``data`` as in a request."""
        self.status = checks.whole("status", status)
        self.headers, self.body = _contents(headers, json, data)

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    def success(self) -> Response:
        """This answer, if its status is 2xx. Raises :class:`HttpStatusError` otherwise."""
        if self.ok:
            return self
        shown = self.body[: _SHOWN * _WIDEST].decode(errors="replace")[:_SHOWN].strip()
        message = f"the server answers {self.status}" + (f": {shown}" if shown else "")
        patience = self.headers.get("retry-after", "").strip()
        is_seconds = patience.isascii() and patience.isdigit()
        raise HttpStatusError(message, status=self.status, retry_after=float(patience) if is_seconds else None)


def _contents(headers: HeadersInit | None, value: Any, data: Data | None) -> tuple[Headers, bytes]:
    """Headers and body of what is given, with the type of a body that has one."""
    given = Headers(() if headers is None else headers)
    if value is not None:
        if data is not None:
            raise TypeError("json: there is data too")
        return _typed(given, "application/json"), _json(value)
    if isinstance(data, Mapping):
        return _typed(given, "application/x-www-form-urlencoded"), _form(data)
    if isinstance(data, str):
        return given, checks.text("data", data).encode()
    if data is None or isinstance(data, (bytes, bytearray, memoryview)):
        return given, bytes(data or b"")
    raise TypeError(f"data: expected bytes, a text or a dictionary, got {data!r}; what becomes JSON is json=")


def _typed(headers: Headers, content_type: str) -> Headers:
    return headers if _TYPE in headers else Headers([*headers.items(), (_TYPE, content_type)])


def _json(value: Any) -> bytes:
    # ASCII, as half a character is no UTF-8; NaN is no JSON.
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _form(data: Mapping[str, str]) -> bytes:
    fields = checks.texts_by_name("data", data)
    return "&".join(f"{_escaped(name)}={_escaped(value)}" for name, value in fields.items()).encode()


def _escaped(text: str) -> str:
    # Without urllib, which every component would then contain.
    return "".join(
        chr(each) if each in _UNESCAPED else "+" if each == 0x20 else f"%{each:02X}" for each in text.encode()
    )
