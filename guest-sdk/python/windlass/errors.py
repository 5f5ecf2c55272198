"""How calls and reconciles fail. Entry points: :class:`ApiError`, :class:`HttpStatusError`, :class:`Terminal`,
:class:`Retry` and :class:`NotReady`."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar


class ApiCode(StrEnum):
    """Why a call failed, in the words of the contract."""

    NOT_FOUND = "not-found"
    ALREADY_EXISTS = "already-exists"
    CONFLICT = "conflict"
    INVALID = "invalid"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    DENIED = "denied"
    UNKNOWN_KIND = "unknown-kind"
    THROTTLED = "throttled"
    EXPIRED = "expired"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    LIMIT_EXCEEDED = "limit-exceeded"
    CLUSTER_GONE = "cluster-gone"
    CANCELLED = "cancelled"
    OTHER = "other"


class ApiError(Exception):
    """A call to a cluster that failed. Catch the class of its code, or look at :attr:`code`. If it is not caught, the reconcile
    is retried. Each code has a class below."""

    code: ClassVar[ApiCode] = ApiCode.OTHER
    """The code to branch on."""

    def __init__(
        self,
        message: str = "",
        *,
        http_status: int = 0,
        reason: str | None = None,
        details: Any = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        """For people."""
        self.http_status = http_status
        """0 where there was no answer."""
        self.reason = self.code.value if reason is None else reason
        """The API server's machine-readable reason, or the host's."""
        self.details = details
        """The API server's ``details``, decoded: field errors, causes; ``None`` where there are none."""
        self.retry_after = retry_after
        """The delay in seconds that the server asked for; ``None`` if it asked for none. The host keeps to it by itself."""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r}, http_status={self.http_status}, reason={self.reason!r})"

    @staticmethod
    def of(code: ApiCode | str) -> type[ApiError]:
        """The class of a code."""
        return _CLASSES[ApiCode(code)]


class NotFound(ApiError):
    """The object does not exist (404). A get answers ``None`` instead, a delete ``False``."""

    code = ApiCode.NOT_FOUND


class AlreadyExists(ApiError):
    """An object of this name exists already (409)."""

    code = ApiCode.ALREADY_EXISTS


class Conflict(ApiError):
    """The object has changed since it was read, or another manager owns a field (409)."""

    code = ApiCode.CONFLICT


class Invalid(ApiError):
    """The object or the call is not valid (400, 422)."""

    code = ApiCode.INVALID


class Unauthorized(ApiError):
    """The host's credentials were refused (401)."""

    code = ApiCode.UNAUTHORIZED


class Forbidden(ApiError):
    """Refused by the API server (403)."""

    code = ApiCode.FORBIDDEN


class Denied(ApiError):
    """Refused by the host: no rule grants it. The message contains the missing rule."""

    code = ApiCode.DENIED


class UnknownKind(ApiError):
    """The cluster does not serve this kind."""

    code = ApiCode.UNKNOWN_KIND


class Throttled(ApiError):
    """Too many requests (429)."""

    code = ApiCode.THROTTLED


class Expired(ApiError):
    """A resource version or continue token is too old (410): start over."""

    code = ApiCode.EXPIRED


class Timeout(ApiError):
    """No answer within the deadline."""

    code = ApiCode.TIMEOUT


class Unavailable(ApiError):
    """The server cannot be reached or is failing (5xx)."""

    code = ApiCode.UNAVAILABLE


class LimitExceeded(ApiError):
    """A limit of the host was hit."""

    code = ApiCode.LIMIT_EXCEEDED


class ClusterGone(ApiError):
    """The cluster left the fleet."""

    code = ApiCode.CLUSTER_GONE


class Cancelled(ApiError):
    """The host is ending this call: return now."""

    code = ApiCode.CANCELLED


class OtherError(ApiError):
    """Anything else: see the HTTP status."""

    code = ApiCode.OTHER


_CLASSES: dict[ApiCode, type[ApiError]] = {each.code: each for each in ApiError.__subclasses__()}


class HttpStatusError(Exception):
    """An answer that says that a call of :mod:`windlass.http` has failed. If it is not caught, the reconcile is retried."""

    def __init__(self, message: str, *, status: int, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        """For example 404."""
        self.retry_after = retry_after
        """The delay in seconds that the server asked for: ``raise NotReady(str(error), error.retry_after or 10)`` waits as long."""


class Retry(Exception):
    """Raised by a reconcile that is to run again with growing delay, and not before the largest retry-after that the API
    returned in this run. Every other exception except :class:`Terminal` has the same effect, and tells where it was raised.
    """


class NotReady(Exception):
    """Raised by a reconcile that waits for something: it runs again after a delay (seconds, or a timedelta), or earlier after an
    event, and counts as succeeded. The message is in the log."""

    def __init__(self, message: str, after: timedelta | float) -> None:
        super().__init__(message)
        self.after = after


class Terminal(Exception):
    """Raised by a reconcile that is to run again only after an event."""
