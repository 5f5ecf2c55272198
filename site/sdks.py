"""References of the SDKs, from their code. Entry point: `references`.

Each language's own tool or text: rustdoc, the declarations for TypeScript, the definitions of Python without their code, `go doc`, the headers of C.
Each item has a heading of its name. hooks.py makes links to it of the names in the code.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from listing import block, fenced
from sdk_python import python

# The page of rustdoc, with the files that it needs.
RUSTDOC = ("windlass_sdk", "src/windlass_sdk", "static.files", "trait.impl", "type.impl", "search.index", "crates.js", "src-files.js")


# Where an item begins, with its comment.
TYPESCRIPT_ITEM = re.compile(r"^(?:/\*\*(?:(?!\*/)[\s\S])*\*/\n)?export (?:declare )?(?:interface|class|function|type|const) (?P<name>\w+)", re.MULTILINE)
GO_ITEM = re.compile(r"^(?://.*\n)*(?:func|type) (?P<name>\w+)", re.MULTILINE)
GO_SECTION = re.compile(r"^(CONSTANTS|VARIABLES|FUNCTIONS|TYPES)$", re.MULTILINE)
GO_UNIT = re.compile(r"^(?=(?:func|type|var|const) )", re.MULTILINE)
C_TITLE = re.compile(r"/\* ---- (.+) ---- \*/")
# The names that a paragraph declares: a type, a macro, a function.
C_NAME = re.compile(r"^(?:} (\w+);|typedef (?:enum|struct).*} (\w+);|#define (\w+)\(?|(?:[\w ]+?[ *]+)(\w+)\()", re.MULTILINE)


def references(root: Path, out: Path) -> None:
    """Writes the pages into the folder `out`."""
    out.mkdir(parents=True, exist_ok=True)
    rust(root, out)
    sdk = root / "guest-sdk"
    pages = {
        "javascript": ("JavaScript and TypeScript", javascript(sdk / "js/types")),
        "python": ("Python", python(sdk / "python")),
        "go": ("Go", go(sdk / "go")),
        "c": ("C", c(sdk / "c/include")),
    }
    for name, (language, text) in pages.items():
        (out / f"{name}.md").write_text(f"# The SDK for {language}\n\n{text}")


def rust(root: Path, out: Path) -> None:
    # `./test` runs the same command, so nothing is built again.
    command = ["cargo", "doc", "--quiet", "--workspace", "--no-deps", "--locked"]
    subprocess.run(command, cwd=root, check=True, env=os.environ | {"RUSTDOCFLAGS": "-D warnings"})
    for name in RUSTDOC:
        made, copied = root / "target/doc" / name, out / "rustdoc" / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(made, copied) if made.is_dir() else shutil.copy(made, copied)
    text = "# The SDK for Rust\n\n[The crate `windlass-sdk`](rustdoc/windlass_sdk/index.html), as rustdoc describes it.\n"
    text += "In a project, `cargo doc --open --package windlass-sdk` shows the same.\n"
    (out / "rust.md").write_text(text)


def javascript(types: Path) -> str:
    modules = {"index": "windlass-sdk"} | {name: f"windlass-sdk/{name}" for name in ("fleet", "http", "testing")}
    return "".join(f"## {module}\n\n{of_typescript((types / f'{name}.d.ts').read_text())}" for name, module in modules.items())


def of_typescript(text: str) -> str:
    return items(text, TYPESCRIPT_ITEM, "typescript")


def items(text: str, pattern: re.Pattern[str], language: str) -> str:
    """Code whose items begin where the pattern matches. Each has a heading of its name; what comes first has none."""
    starts = list(pattern.finditer(text))
    made, last = block(text[: starts[0].start()], language) if starts and text[: starts[0].start()].strip() else "", ""
    for start, following in zip(starts, [*starts[1:], None]):
        name = start["name"]
        if name != last:  # overloads of a function share a heading
            made += f"### {name} {{#{name}}}\n\n"
        made += block(text[start.start() : following.start() if following else len(text)], language)
        last = name
    return made


def go(folder: Path) -> str:
    """What `go doc` says of each package. Without Go, how to ask."""
    packages = {".": "windlass.dev/windlass"}
    packages |= {f"./{name}": f"windlass.dev/windlass/{name}" for name in ("httpclient", "mapper", "windlasstest")}
    if shutil.which("go") is None:
        return "".join(f"In a project: `go doc -all {package}`.\n\n" for package in packages.values())
    text = ""
    for path, package in packages.items():
        said = subprocess.run(["go", "doc", "-all", path], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
        text += f"## {package}\n\n{of_go(said.stdout)}"
    return text


def of_go(said: str) -> str:
    """The text of a package, and its declarations below their comments."""
    title, *sections = GO_SECTION.split(said)
    text = fenced(re.sub("^# ", "#### ", title.partition("\n")[2], flags=re.MULTILINE)).strip() + "\n\n"
    for name, section in zip(sections[::2], sections[1::2]):
        code = "\n".join(commented(unit) for unit in GO_UNIT.split(section) if unit.strip())
        is_named = name in ("FUNCTIONS", "TYPES")
        text += items(code, GO_ITEM, "go") if is_named else f"### {name.capitalize()}\n\n{block(code, 'go')}"
    return text


def commented(unit: str) -> str:
    """A declaration of `go doc`, whose text stands below it, as in a source."""
    lines = unit.strip("\n").splitlines()
    doc = [f"// {line[4:]}".rstrip() for line in lines if line.startswith("    ")]
    return "\n".join([*doc, *(line for line in lines if line.strip() and not line.startswith("    "))]) + "\n"


def c(include: Path) -> str:
    return "".join(f"## {header.name}\n\n{of_c(header.read_text())}" for header in sorted(include.glob("*.h")))


def of_c(text: str) -> str:
    """The paragraphs of a header, each with anchors of the names that it declares, below its titles."""
    made = ""
    for paragraph in re.split(r"\n{2,}", text.strip()):
        if title := C_TITLE.fullmatch(paragraph):
            made += f"### {title[1]}\n\n"
            continue
        names = dict.fromkeys(name for found in C_NAME.findall(paragraph) for name in found if name)
        anchors = "".join(f'<a id="{name}"></a>' for name in names)
        made += f"{anchors}\n\n{block(paragraph, 'c')}" if anchors else block(paragraph, "c")
    return made
