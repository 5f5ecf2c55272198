"""References of the SDKs, from their code. Entry point: `references`.

Each language's own tool or text: rustdoc, the declarations for TypeScript, the definitions of Python without their code, `go doc`, the headers of C.
"""

import ast
import copy
import inspect
import os
import re
import shutil
import subprocess
from pathlib import Path

# Of reStructuredText: :class:`Cluster`, and the end of a paragraph before code.
ROLE = re.compile(r":\w+:`~?([^`]*)`")
CODE_FOLLOWS = re.compile(r"(\s)?::$", re.MULTILINE)

# The page of rustdoc, with the files that it needs.
RUSTDOC = ("windlass_sdk", "src/windlass_sdk", "static.files", "trait.impl", "type.impl", "search.index", "crates.js", "src-files.js")


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
    modules = {"index": "windlass-sdk", "fleet": "windlass-sdk/fleet", "testing": "windlass-sdk/testing"}
    return "".join(f"## {module}\n\n{code((types / f'{name}.d.ts').read_text())}" for name, module in modules.items())


def go(folder: Path) -> str:
    """What `go doc` says of each package. Without Go, how to ask."""
    packages = {".": "windlass.dev/windlass"}
    packages |= {f"./{name}": f"windlass.dev/windlass/{name}" for name in ("mapper", "windlasstest")}
    if shutil.which("go") is None:
        return "".join(f"In a project: `go doc -all {package}`.\n\n" for package in packages.values())
    text = ""
    for path, package in packages.items():
        said = subprocess.run(["go", "doc", "-all", path], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
        text += f"## {package}\n\n{code(said.stdout)}"
    return text


def c(include: Path) -> str:
    return "".join(f"## {header.name}\n\n{code(header.read_text())}" for header in sorted(include.glob("*.h")))


def python(folder: Path) -> str:
    """The public names of each module, of the text of the package: it may need a newer Python than this one."""
    modules = {path.stem: ast.parse(path.read_text()) for path in sorted((folder / "windlass").glob("*.py"))}
    text, shown = "", []
    for name in ("__init__", "operations", "fleet", "log", "testing"):
        module = modules[name]
        title = "windlass" if name == "__init__" else f"windlass.{name}"
        text += f"## {title}\n\n{plain(ast.get_docstring(module))}\n\n"
        for public in listed(module) or [name for name, _, _ in definitions(module.body)]:
            node, doc = defined(modules, name, public)
            if node is not None and node not in shown:
                shown.append(node)
                text += f"### {public}\n\n{code(described(node, doc))}"
    return text


def defined(modules: dict[str, ast.Module], module: str, public: str):
    """The definition of a name and its docstring, in the module or where that imports it from. None: it is a module."""
    for name, node, doc in definitions(modules[module].body):
        if name == public:
            return node, doc
    for statement in modules[module].body:
        is_own = isinstance(statement, ast.ImportFrom) and statement.module in modules
        if is_own and public in [alias.name for alias in statement.names]:
            return defined(modules, statement.module, public)
    return None, ""


def definitions(body: list[ast.stmt]):
    """The public names of a module or class, each with its statement and the docstring behind it."""
    for statement, behind in zip(body, [*body[1:], None]):
        for name in named(statement):
            if not name.startswith("_"):
                yield name, statement, doc_of(behind)


def named(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def doc_of(statement) -> str:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return plain(statement.value.value) if is_text and isinstance(statement.value.value, str) else ""


def listed(module: ast.Module) -> list[str]:
    """What the module says that it exports."""
    for statement in module.body:
        if named(statement) == ["__all__"]:
            return ast.literal_eval(statement.value)
    return []


def described(node: ast.stmt, doc: str, of_class: bool = False) -> str:
    """A definition without its code."""
    if isinstance(node, ast.ClassDef):
        return class_described(node)
    if isinstance(node, ast.FunctionDef):
        return function_described(node, of_class)
    return f"{ast.unparse(node)}\n{indented(doc)}"


def class_described(node: ast.ClassDef) -> str:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    parts = [f"class {node.name}({bases})\n" if bases else f"class {node.name}\n"]
    parts[0] += indented(plain(ast.get_docstring(node)))
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            parts.append(f"{node.name}{signature(statement, of_class=True)}\n")
            parts += kept(statement)
    parts += [described(member, doc, of_class=True) for _, member, doc in definitions(node.body)]
    return parts[0] + "".join(f"\n{indented(part)}" for part in parts[1:])


def kept(init: ast.FunctionDef) -> list[str]:
    """What a constructor keeps and explains."""
    found = []
    for statement, behind in zip(init.body, [*init.body[1:], None]):
        if isinstance(statement, ast.AnnAssign) and doc_of(behind):
            name = ast.unparse(statement.target).removeprefix("self.")
            found.append(f"{name}: {ast.unparse(statement.annotation)}\n{indented(doc_of(behind))}")
    return found


def function_described(node: ast.FunctionDef, of_class: bool) -> str:
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    doc = indented(plain(ast.get_docstring(node)))
    if "property" in marks:
        return f"{node.name}: {ast.unparse(node.returns) if node.returns else 'Any'}\n{doc}"
    return f"{node.name}{signature(node, of_class and 'staticmethod' not in marks)}\n{doc}"


def signature(node: ast.FunctionDef, of_class: bool) -> str:
    arguments = copy.deepcopy(node.args)
    if of_class:
        del arguments.args[:1]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(arguments)}){returns}"


def plain(text) -> str:
    """A docstring without the marks of reStructuredText."""
    text = ROLE.sub(r"\1", inspect.cleandoc(text or "")).replace("``", "`")
    return CODE_FOLLOWS.sub(lambda match: ":" if match.group(1) is None else "", text)


def indented(text: str) -> str:
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


def code(text: str) -> str:
    return f"```\n{text.rstrip()}\n```\n\n"
