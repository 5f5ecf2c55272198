"""The reference of the kinds, from their definitions. Entry point: `page`.

Each object of a kind is a table. Each field has an anchor: `#reconciler.spec.limits.memory`.
"""

from html import escape

TITLE = "# Kinds\n\nThe fields of {kinds} of `windlass.dev/v1alpha1`. [Configuration](../docs/configuration.md) explains them, and the Manager.\n"
# Bounds of a field, beside its type.
BOUNDS = {
    "minimum": "≥ {}", "maximum": "≤ {}", "minLength": "≥ {} characters", "maxLength": "≤ {} characters",
    "minItems": "≥ {} items", "maxItems": "≤ {} items", "minProperties": "≥ {} names", "maxProperties": "≤ {} names", "pattern": "matches <code>{}</code>",
}


def page(definitions: list[dict]) -> str:
    names = [crd["spec"]["names"]["kind"] for crd in definitions]
    text = TITLE.format(kinds=", ".join(f"[{name}](#{name.lower()})" for name in names))
    for name, crd in zip(names, definitions):
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        text += f"\n## {name}\n\n{schema.get('description', '')}\n"
        for part in ("spec", "status"):
            if part in schema["properties"]:
                text += tables(name.lower(), part, schema["properties"][part])
    return text


def tables(kind: str, path: str, schema: dict, suffix: str = "") -> str:
    """The table of an object, and those of the objects below it. A path that ends in `[]` or `.*` is of a list's or a map's items."""
    text = f"\n### {path}{suffix} {{#{kind}.{path}}}\n\n"
    # The kind's own description stands above.
    if path != "spec":
        text += f"{plain(schema)}\n\n"
    text += "".join(f"* {escape(rule['message'])}\n" for rule in schema.get("x-kubernetes-validations", []) if "message" in rule)
    text += "\n| field | type | meaning |\n|---|---|---|\n"
    below = ""
    for name, field in schema.get("properties", {}).items():
        anchor = f"{kind}.{path}.{name}"
        inner, items, said = inside(field)
        has_table = "properties" in inner
        own = "" if has_table else f"#{anchor} "  # else the table's heading has the anchor
        said = f"[{said}](#{anchor})" if has_table else said
        must = "<br>required" if name in schema.get("required", []) else ""
        text += f"| [`{name}`](#{anchor}){{{own}.field}} | {said}{must} | {meaning(field, inner)} |\n"
        if has_table:
            below += tables(kind, f"{path}.{name}", inner, items)
    return text + below


def inside(field: dict) -> tuple[dict, str, str]:
    """The schema of an item of a list or map, or the field's own; the end of its path; the type for people."""
    if field.get("type") == "array":
        inner = field.get("items", {})
        return inner, "[]", f"list of {kind_of(inner)}s"
    if isinstance(field.get("additionalProperties"), dict):
        inner = field["additionalProperties"]
        return inner, ".*", f"map of {kind_of(inner)}s"
    return field, "", kind_of(field)


def kind_of(field: dict) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "number or text"
    words = {"string": "text", "integer": "number", "boolean": "true or false"}
    return words.get(field.get("type", ""), field.get("type", "anything"))


def meaning(field: dict, inner: dict) -> str:
    """What a field means, its values and bounds."""
    parts = [plain(field)]
    values = inner.get("enum", [])
    if not all(f"`{value}`" in parts[0] for value in values):
        parts.append("One of " + ", ".join(f"`{value}`" for value in values) + ".")
    if "default" in field and "Default:" not in parts[0]:
        parts.append(f"Default: `{field['default']}`.")
    # Most fields that have a range say so.
    shown = [] if "Range:" in parts[0] else [field] if field is inner else [field, inner]
    bounds = [text.format(cell(str(schema[key]))) for schema in shown for key, text in BOUNDS.items() if key in schema]
    if bounds:
        parts.append(f"<br><small>{', '.join(bounds)}</small>")
    return " ".join(part for part in parts if part)


def plain(schema: dict) -> str:
    return " ".join(schema.get("description", "").split()).replace("|", "\\|").replace("<", "&lt;")


def cell(text: str) -> str:
    """A text for HTML in a cell of a table, with nothing that Markdown would read."""
    return "".join(f"&#{ord(char)};" if char in "|*_[]<>`\\" else char for char in text)
