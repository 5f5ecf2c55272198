"""Selectors over objects in memory. Entry points: :func:`labels_match` and :func:`fields_match`."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import Invalid
from .memory_fields import metadata_of
from .objects import Object


def labels_match(selector: str | None, labels: Mapping[str, str]) -> bool:
    """Whether labels match a selector in the syntax of kubectl's ``-l``: ``a=b``, ``a!=b``, ``a in (b,c)``,
    ``a notin (b)``, ``a``, ``!a``."""
    return all(_label_matches(requirement, labels) for requirement in _split(selector or ""))


def fields_match(selector: str | None, obj: Object) -> bool:
    """Whether an object matches a selector on ``metadata.name`` and ``metadata.namespace``."""
    return all(_field_matches(requirement, obj) for requirement in _split(selector or ""))


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


def _label_matches(requirement: str, labels: Mapping[str, str]) -> bool:
    key, unequal, wanted = requirement.partition("!=")
    if unequal:
        return labels.get(key.strip()) != wanted.strip()
    key, equal, wanted = requirement.partition("=")
    if equal:
        return labels.get(key.strip()) == wanted.lstrip("=").strip()
    head, opened, values = requirement.partition("(")
    if opened:
        key, space, operator = head.strip().rpartition(" ")
        if not space or operator not in ("in", "notin"):
            raise Invalid(f"{requirement!r} is not a label selector", http_status=422)
        found = labels.get(key.strip()) in [value.strip() for value in values.rstrip(")").split(",")]
        return found == (operator == "in")
    if requirement.startswith("!"):
        return requirement[1:].strip() not in labels
    return requirement in labels


def _field_matches(requirement: str, obj: Object) -> bool:
    path, unequal, wanted = requirement.partition("!=")
    if not unequal:
        path, equal, wanted = requirement.partition("=")
        if not equal:
            raise Invalid(f"{requirement!r} is not a field selector", http_status=422)
        wanted = wanted.lstrip("=")
    path = path.strip()
    if path not in ("metadata.name", "metadata.namespace"):
        raise Invalid(f"a test cluster does not select by the field {path!r}", http_status=422)
    found = metadata_of(obj).get(path.removeprefix("metadata."))
    return bool(found == wanted.strip()) != bool(unequal)
