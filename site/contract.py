"""The reference of the contract with guests, from its WIT. Entry point: `page`.

Each item has an anchor, and so has each of its fields, cases and methods: `#client.cluster.get`. Types are links to their definitions.
It reads WIT as wit/ writes it: an item, a field or a case on a line of its own.
"""

import re
from html import escape
from pathlib import Path

TITLE = "# The contract, item by item\n\nWhat `wit/` says. [The contract](../wit/README.md) explains it.\n\nInterfaces: {}.\n"
OPENS = re.compile(r"(interface|world|record|variant|enum|flags|resource) ([\w-]+) \{")
TYPE = re.compile(r"type ([\w-]+) = (.+);")
USE = re.compile(r"use ([\w-]+)\.\{(.+)\};")
FUNCTION = re.compile(r"%?([\w-]+): (func\(.*);")
FIELD = re.compile(r"%?([\w-]+): (.+),")
CASE = re.compile(r"%?([\w-]+)(?:\((.+)\))?,")
WORLD = re.compile(r"(import|export|include) ([\w-]+);")
NAME = re.compile(r"[a-z][\w-]*")
SPACE = "&nbsp;"


def page(folder: Path) -> str:
    files = {path.stem: path.read_text() for path in sorted(folder.glob("*.wit"))}
    order = [name for name in ("reconciler", "mapper", "client", "fleet", "types") if name in files]
    order += [name for name in files if name not in [*order, "worlds"]]
    text = TITLE.format(", ".join(f"[{name}](#{name})" for name in order) + ". And [worlds](#worlds)")
    text += "".join(interface(files[name]) for name in order)
    return text + "\n## Worlds {#worlds}\n\n" + interface(files["worlds"])


def interface(wit: str) -> str:
    """What a file says, line by line."""
    types = defined(wit)
    text, doc, scope = "", [], []
    for line in map(str.strip, wit.splitlines()):
        if line.startswith("///"):
            doc.append(line.removeprefix("///").strip())
            continue
        said, doc = " ".join(doc), []
        if line == "}":
            scope.pop()
            text += "\n"
        elif opened := OPENS.fullmatch(line):
            kind, name = opened.groups()
            scope.append((kind, name))
            text += opening(kind, ".".join(name for _, name in scope), said)
        elif scope:
            text += item(line, scope, types, said)
    return text


def defined(wit: str) -> dict[str, str]:
    """The anchors of the types that a file knows."""
    found, interface = {}, ""
    for line in map(str.strip, wit.splitlines()):
        if opened := OPENS.fullmatch(line):
            kind, name = opened.groups()
            interface = name if kind in ("interface", "world") else interface
            found[name] = name if kind in ("interface", "world") else f"{interface}.{name}"
        elif used := USE.fullmatch(line):
            found |= {name.strip(): f"{used[1]}.{name.strip()}" for name in used[2].split(",")}
        elif alias := TYPE.fullmatch(line):
            found[alias[1]] = f"{interface}.{alias[1]}"
    return found


def opening(kind: str, path: str, doc: str) -> str:
    if kind == "interface":
        return f"\n## {path} {{#{path}}}\n\n{doc}\n\n"
    if kind == "world":
        return f"\n### {path} {{#{path}}}\n\n{doc}\n\n"
    text = f"\n### {path.split('.')[-1]} {{#{path}}}\n\n*{kind}* — {doc}\n\n"
    heads = {"record": ("field", "type"), "resource": ("method", "type"), "variant": ("case", "holds")}
    second = heads.get(kind, ("case",))
    return text + f"| {' | '.join(second)} | meaning |\n{'|---' * (len(second) + 1)}|\n"


def item(line: str, scope: list[tuple[str, str]], types: dict[str, str], doc: str) -> str:
    kind = scope[-1][0]
    path = ".".join(name for _, name in scope)
    doc = doc.replace("|", "\\|")
    if kind == "world":
        match = WORLD.fullmatch(line)
        return f"* {match[1]} [`{match[2]}`](#{match[2]})\n" if match else ""
    if alias := TYPE.fullmatch(line):
        return f"\n### {alias[1]} {{#{path}.{alias[1]}}}\n\n*type* {linked(alias[2], types)} — {doc}\n\n"
    function = FUNCTION.fullmatch(line)
    if function and kind == "interface":
        return f"\n### {function[1]} {{#{path}.{function[1]}}}\n\n*function* {linked(function[2], types)}\n\n{doc}\n\n"
    for pattern in (FUNCTION, FIELD, CASE):
        if found := pattern.fullmatch(line):
            name, of = found.groups()
            cells = [f"[`{name}`](#{path}.{name}){{#{path}.{name} .field}}"]
            if kind not in ("enum", "flags"):
                cells.append(linked(of, types) if of else "")
            return f"| {' | '.join([*cells, doc])} |\n"
    return ""


def linked(of: str, types: dict[str, str]) -> str:
    """A type as code, whose names lead to their definitions. Names of arguments, before a colon, do not."""

    def link(match: re.Match[str]) -> str:
        name = match[0]
        is_argument = of[match.end() : match.end() + 1] == ":"
        return name if is_argument or name not in types else f'\x00{types[name]}\x01{name}\x02'

    text = escape(NAME.sub(link, of))
    return "<code>" + text.replace("\x00", '<a href="#').replace("\x01", '">').replace("\x02", "</a>") + "</code>"
