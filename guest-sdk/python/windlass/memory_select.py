"""Selectors over objects in memory. Entry points: :func:`label_selector` and :func:`field_selector`, which refuse a
wrong one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .errors import Invalid
from .memory_fields import metadata_of
from .objects import Object


_Labels = Mapping[str, str]


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
    key, unequal, wanted = requirement.partition("!=")
    if unequal:
        return lambda labels: labels.get(key.strip()) != wanted.strip()
    name, equal, value = requirement.partition("=")
    if equal:
        return lambda labels: labels.get(name.strip()) == value.lstrip("=").strip()
    head, opened, values = requirement.partition("(")
    if opened:
        name, space, operator = head.strip().rpartition(" ")
        if not space or operator not in ("in", "notin"):
            raise Invalid(f"{requirement!r} is not a label selector", http_status=422)
        among = [each.strip() for each in values.rstrip(")").split(",")]
        return lambda labels: (labels.get(name.strip()) in among) == (operator == "in")
    if requirement.startswith("!"):
        return lambda labels: requirement[1:].strip() not in labels
    return lambda labels: requirement in labels


def _field_requirement(requirement: str) -> Callable[[Object], bool]:
    path, unequal, wanted = requirement.partition("!=")
    if not unequal:
        path, equal, wanted = requirement.partition("=")
        if not equal:
            raise Invalid(f"{requirement!r} is not a field selector", http_status=422)
        wanted = wanted.lstrip("=")
    path = path.strip()
    if path not in ("metadata.name", "metadata.namespace"):
        raise Invalid(f"a test cluster does not select by the field {path!r}", http_status=422)
    field = path.removeprefix("metadata.")
    return lambda obj: bool(metadata_of(obj).get(field) == wanted.strip()) != bool(unequal)
