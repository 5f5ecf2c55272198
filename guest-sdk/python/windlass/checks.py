"""Checks the values that a guest passes to the host: a wrong type or a number out of range would end the instance. Each check
takes a name for its message, and returns the value. Entry point: :func:`fields_of`, for dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any

MOST = 2**32 - 1
"""The largest number of the contract."""

_MILLISECOND = timedelta(milliseconds=1)

Check = Callable[[str, Any], Any]


def fields_of(instance: object, checks: Mapping[str, Check]) -> None:
    """Checks the fields of a frozen dataclass that have a check, and stores the results."""
    for each in fields(instance):  # type: ignore[arg-type]
        if each.name in checks:
            object.__setattr__(instance, each.name, checks[each.name](each.name, getattr(instance, each.name)))


def well_formed(value: str) -> str:
    """Replaces each surrogate (half a character) by U+FFFD: the host cannot read surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in value)
    return value


def text(what: str, value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise _wrong(what, "a text", value)
    return value if value.isascii() else well_formed(value)


def flag(what: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise _wrong(what, "True or False", value)
    return value


def whole(what: str, value: Any) -> int:
    """A whole number that the contract can carry."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(what, "a whole number", value)
    if not 0 <= value <= MOST:
        raise ValueError(f"{what}: expected a whole number from 0 to {MOST}, got {value}")
    return value


def milliseconds(what: str, value: timedelta | float) -> int:
    """Seconds, or a timedelta, as whole milliseconds that the contract can carry. Fractions are rounded up."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not seconds >= 0:
        raise ValueError(f"{what} is not {value}: give seconds from 0 on")
    # To a timedelta's microseconds first: 1.1 is a little more than 1100 ms.
    span = timedelta(seconds=min(seconds, MOST / 1000))
    whole = -(-span // _MILLISECOND)
    return max(whole, 1) if seconds > 0 else 0


def optional(check: Check) -> Check:
    """``None``, or a value that the check accepts."""
    return lambda what, value: None if value is None else check(what, value)


def one_of(*words: str) -> Check:
    """One of these words."""

    def check(what: str, value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"{what}: {value!r} is none of {', '.join(words)}")
        return value

    return check


def sequence(check: Check) -> Check:
    """A list or tuple of values that the check accepts, as a tuple."""

    def check_all(what: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            raise _wrong(what, "a list", value)
        return tuple(check(f"{what}[{at}]", each) for at, each in enumerate(value))

    return check_all


def pair(what: str, value: Any) -> tuple[str, str]:
    """Two texts."""
    both: tuple[str, ...] = sequence(text)(what, value)
    if len(both) != 2:
        raise ValueError(f"{what}: expected a name and a value, got {len(both)} texts")
    return both[0], both[1]


def texts_by_name(what: str, value: Any) -> dict[str, str]:
    """A dictionary of texts."""
    return {
        text(f"a name of {what}", name): text(f"{what}[{name!r}]", each) for name, each in mapping(what, value).items()
    }


def mapping(what: str, value: Any) -> Mapping[Any, Any]:
    """A dictionary."""
    if not isinstance(value, Mapping):
        raise _wrong(what, "a dictionary", value)
    return value


def instance_of(made: type) -> Check:
    """A value of a class."""

    def check(what: str, value: Any) -> Any:
        if not isinstance(value, made):
            raise _wrong(what, f"a windlass.{made.__name__}", value)
        return value

    return check


def _wrong(what: str, wanted: str, value: Any) -> TypeError:
    return TypeError(f"{what}: expected {wanted}, got {value!r}")
