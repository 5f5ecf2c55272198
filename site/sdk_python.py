"""The reference of the SDK for Python, from its text. Entry point: `python`.

The package may need a newer Python than this one, so it is read and not imported.
"""

import ast
import copy
import inspect
import re
import textwrap
from pathlib import Path

from listing import block

# Of reStructuredText: :class:`Cluster`, and the end of a paragraph before code.
ROLE = re.compile(r":\w+:`~?([^`]*)`")
CODE_FOLLOWS = re.compile(r"(\s)?::$", re.MULTILINE)
# Between two arguments, and not inside of brackets.
AT_COMMA = re.compile(r", (?![^\[(]*[\])])")
# Of a line.
WIDTH = 88


def python(folder: Path) -> str:
    """The public names of each module, of the text of the package: it may need a newer Python than this one."""
    modules = {path.stem: ast.parse(path.read_text()) for path in sorted((folder / "windlass").glob("*.py"))}
    text, shown = "", []
    for name in ("__init__", "operations", "fleet", "http", "log", "testing"):
        module = modules[name]
        title = "windlass" if name == "__init__" else f"windlass.{name}"
        text += f"## {title}\n\n{plain(ast.get_docstring(module))}\n\n"
        for public in listed(module) or [name for name, _, _ in definitions(module.body)]:
            node, doc = defined(modules, name, public)
            if node is not None and node not in shown:
                shown.append(node)
                text += f"### {public} {{#{public}}}\n\n{block(described(node, doc), 'python')}"
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
    return f"{ast.unparse(node)}\n{docstring(doc, 0)}"


def class_described(node: ast.ClassDef) -> str:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    parts = [f"class {node.name}({bases}):\n" if bases else f"class {node.name}:\n"]
    parts[0] += docstring(plain(ast.get_docstring(node)))
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            parts.append(f"def __init__{signature(statement, of_class=True)}: ...\n")
            parts += kept(statement)
    parts += [described(member, doc, of_class=True) for _, member, doc in definitions(node.body)]
    return parts[0] + "".join(f"\n{indented(part)}" for part in parts[1:])


def kept(init: ast.FunctionDef) -> list[str]:
    """What a constructor keeps and explains."""
    found = []
    for statement, behind in zip(init.body, [*init.body[1:], None]):
        if isinstance(statement, ast.AnnAssign) and doc_of(behind):
            name = ast.unparse(statement.target).removeprefix("self.")
            found.append(f"{name}: {ast.unparse(statement.annotation)}\n{docstring(doc_of(behind), 0)}")
    return found


def function_described(node: ast.FunctionDef, of_class: bool) -> str:
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    doc = plain(ast.get_docstring(node))
    if "property" in marks:
        return f"{node.name}: {ast.unparse(node.returns) if node.returns else 'Any'}\n{docstring(doc, 0)}"
    signed = signature(node, of_class and "staticmethod" not in marks)
    return f"def {node.name}{signed}:\n{docstring(doc)}" if doc else f"def {node.name}{signed}: ...\n"


def signature(node: ast.FunctionDef, of_class: bool) -> str:
    arguments = copy.deepcopy(node.args)
    if of_class:
        del arguments.args[:1]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    text = ast.unparse(arguments)
    if len(text) + len(returns) > WIDTH - 20:
        text = "".join(f"\n    {argument}," for argument in AT_COMMA.split(text)) + "\n"
    return f"({text}){returns}"


def plain(text) -> str:
    """A docstring without the marks of reStructuredText."""
    text = ROLE.sub(r"\1", inspect.cleandoc(text or "")).replace("``", "`")
    text = CODE_FOLLOWS.sub(lambda match: ":" if match.group(1) is None else "", text)
    # Code is indented, and stays as it is; so do lists.
    paragraphs = (part if part.startswith((" ", "*", "-")) else textwrap.fill(part, WIDTH) for part in text.split("\n\n"))
    return "\n\n".join(paragraphs)


def docstring(doc: str, depth: int = 1) -> str:
    """A docstring as Python has it; nothing for none."""
    text = f'"""{doc}"""\n' if doc else ""
    return indented(text) if depth else text


def indented(text: str) -> str:
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())
