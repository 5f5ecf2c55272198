"""Selectors over objects in memory. Entry points: :func:`label_selector` and :func:`field_selector`, which refuse a
wrong one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .errors import Invalid
from .memory_fields import metadata_of
from .objects import Object


_Labels = Mapping[str, str]

_KEY, _VALUE = r"([A-Za-z0-9./_-]+)", r"[A-Za-z0-9./_-]*"
_COMPARISON = re.compile(rf"{_KEY}\s*(!=|==?)\s*({_VALUE})")
_MEMBERSHIP = re.compile(rf"{_KEY}\s+(in|notin)\s*\(\s*({_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)")
_EXISTENCE = re.compile(rf"(!?)\s*{_KEY}")
_FIELD_COMPARISON = re.compile(r"([^=!]*)(!=|==?)([^=]*)")


def label_selector(selector: str | None) -> Callable[[_Labels], bool]:
    """Tells whether labels match a selector in the syntax of kubectl's ``-l``: ``a=b``, ``a!=b``, ``a in (b,c)``,
    ``a notin (b)``, ``a``, ``!a``."""
    requirements = [_label_requirement(each) for each in _split(selector or "")]
    return lambda labels: all(matches(labels) for matches in requirements)


def field_selector(selector: str | None) -> Callable[[Object], bool]:
    """Tells whether an object matches a selector on ``metadata.name`` and ``metadata.namespace``."""
    requirements = [_field_requirement(each) for each in _split(selector or "")]
    return lambda obj: all(matches(obj) for matches in requirements)


def labels_of(obj: Object) -> dict[str, str]:
    """Labels of an object."""
    labels = metadata_of(obj).get("labels")
    if not isinstance(labels, dict):
        return {}
    return {key: value if isinstance(value, str) else "" for key, value in labels.items()}


def _split(selector: str) -> list[str]:
    """Splits at the commas that are not inside parentheses."""
    parts, depth = [""], 0
    for character in selector:
        if character == "," and depth == 0:
            parts.append("")
            continue
        if character == "(":
            depth += 1
        elif character == ")":
            depth = max(depth - 1, 0)
        parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _label_requirement(requirement: str) -> Callable[[_Labels], bool]:
    if found := _COMPARISON.fullmatch(requirement):
        key, operator, wanted = found.groups()
        return lambda labels: (labels.get(key) == wanted) == (operator != "!=")
    if found := _MEMBERSHIP.fullmatch(requirement):
        key, operator, values = found.groups()
        among = [each.strip() for each in values.split(",")]
        return lambda labels: (labels.get(key) in among) == (operator == "in")
    if found := _EXISTENCE.fullmatch(requirement):
        absent, key = found.groups()
        return lambda labels: (key in labels) != bool(absent)
    raise Invalid(f"{requirement!r} is not a label selector", http_status=422)


def _field_requirement(requirement: str) -> Callable[[Object], bool]:
    found = _FIELD_COMPARISON.fullmatch(requirement)
    if found is None:
        raise Invalid(f"{requirement!r} is not a field selector", http_status=422)
    path, operator, wanted = (each.strip() for each in found.groups())
    if path not in ("metadata.name", "metadata.namespace"):
        raise Invalid(f"a test cluster does not select by the field {path!r}", http_status=422)
    field = path.removeprefix("metadata.")
    return lambda obj: bool(metadata_of(obj).get(field) == wanted) == (operator != "!=")
