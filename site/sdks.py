"""References of the SDKs, from their code. Entry point: `references`.

Each language's own tool or text: rustdoc, the declarations for TypeScript, docstrings and signatures of Python, `go doc`, the headers of C.
"""

import enum
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# Of reStructuredText: :class:`Cluster`, and the end of a paragraph before code.
ROLE = re.compile(r":\w+:`~?([^`]*)`")
CODE_FOLLOWS = re.compile(r"(\s)?::$", re.MULTILINE)

# A type in a signature that Python keeps as a text.
QUOTED = re.compile(r"(: |-> )'([^']*)'")

# What has a page of rustdoc, with the files that it needs.
RUSTDOC = ("windlass_sdk", "static.files", "search.index")


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
    # As ./test makes it: then it is there.
    command = ["cargo", "doc", "--quiet", "--workspace", "--no-deps", "--locked"]
    subprocess.run(command, cwd=root, check=True, env=os.environ | {"RUSTDOCFLAGS": "-D warnings"})
    for name in RUSTDOC:
        shutil.copytree(root / "target/doc" / name, out / "rustdoc" / name)
    text = "# The SDK for Rust\n\n[The crate `windlass-sdk`](rustdoc/windlass_sdk/index.html), as rustdoc describes it.\n"
    text += "In a project, `cargo doc --open` shows the same.\n"
    (out / "rust.md").write_text(text)


def javascript(types: Path) -> str:
    modules = {"index": "windlass-sdk", "fleet": "windlass-sdk/fleet", "testing": "windlass-sdk/testing"}
    return "".join(f"## {module}\n\n{code((types / f'{name}.d.ts').read_text())}" for name, module in modules.items())


def go(folder: Path) -> str:
    """What `go doc` says of each package. Without Go, how to ask."""
    packages = {".": "windlass.dev/windlass"}
    packages |= {f"./{name}": f"windlass.dev/windlass/{name}" for name in ("mapper", "windlasstest")}
    if shutil.which("go") is None:
        return "In a project: `go doc -all windlass.dev/windlass`.\n"
    text = ""
    for path, package in packages.items():
        said = subprocess.run(["go", "doc", "-all", path], cwd=folder, check=True, capture_output=True, text=True)
        text += f"## {package}\n\n{code(said.stdout)}"
    return text


def c(include: Path) -> str:
    return "".join(f"## {header.name}\n\n{code(header.read_text())}" for header in sorted(include.glob("*.h")))


def python(folder: Path) -> str:
    sys.path.insert(0, str(folder))
    text = ""
    for name in ("windlass", "windlass.fleet", "windlass.log", "windlass.testing"):
        module = importlib.import_module(name)
        text += f"## {name}\n\n{plain(module)}\n\n"
        for public in getattr(module, "__all__", None) or own(module):
            value = getattr(module, public)
            if not inspect.ismodule(value):
                text += f"### {public}\n\n{code(described(public, value))}"
    return text


def own(module) -> list[str]:
    """The public names that a module without a list of them defines."""
    found = vars(module).items()
    return [name for name, value in found if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__]


def described(name: str, value) -> str:
    """The signature of a function or class with its methods, each with what its docstring says."""
    if inspect.isclass(value):
        return class_described(name, value)
    if inspect.isfunction(value):
        return f"def {name}{signature(value)}\n{indented(plain(value))}"
    return f"{name} = {value!r}\n"


def class_described(name: str, value: type) -> str:
    parents = ", ".join(parent.__name__ for parent in value.__bases__ if parent is not object)
    text = f"class {name}({parents})" if parents else f"class {name}"
    text += f"\n{indented(plain(value))}"
    if issubclass(value, enum.Enum):
        return text + "".join(f"    {member.name}\n" for member in value)
    if "__init__" in vars(value) and not issubclass(value, Exception):
        text += f"\n    {name}{signature(value.__init__, of_instance=True)}\n"
    for member, of in vars(value).items():
        if member.startswith("_"):
            continue
        if isinstance(of, property):
            text += f"\n    {member}\n{indented(plain(of), 8)}"
        elif isinstance(of, (staticmethod, classmethod)) or inspect.isfunction(of):
            function = getattr(value, member)
            text += f"\n    {member}{signature(function, of_instance=inspect.isfunction(of))}\n{indented(plain(function), 8)}"
    return text


def signature(function, of_instance: bool = False) -> str:
    of = inspect.signature(function)
    parameters = list(of.parameters.values())[1:] if of_instance else list(of.parameters.values())
    return QUOTED.sub(r"\1\2", str(of.replace(parameters=parameters)))


def plain(value) -> str:
    """A docstring without the marks of reStructuredText."""
    text = ROLE.sub(r"\1", inspect.getdoc(value) or "").replace("``", "`")
    return CODE_FOLLOWS.sub(lambda match: ":" if match.group(1) is None else "", text)


def indented(text: str, width: int = 4) -> str:
    lines = (f"{' ' * width}{line}".rstrip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines)


def code(text: str) -> str:
    return f"```\n{text.rstrip()}\n```\n\n"
