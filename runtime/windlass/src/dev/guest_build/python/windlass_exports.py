"""The base of a guest: Python, the SDK and packages, without the guest's own modules. Written by `windlass dev`.

The first call of `describe` takes the guest's modules as the config. `windlass dev` keeps the memory that this call leaves.
"""

import ast
import importlib
import importlib.util
import json
import random
import sys
from importlib.machinery import ModuleSpec, PathFinder

import windlass_modules
from componentize_py_types import Err
from windlass import component
from wit_world.exports import reconciler
from wit_world.imports import config


class _Imports(ast.NodeVisitor):
    """The modules that a text imports as soon as it is imported itself."""

    def __init__(self):
        self.names = set()

    def visit_FunctionDef(self, node):
        pass

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_Import(self, node):
        self.names.update(alias.name for alias in node.names)

    def visit_ImportFrom(self, node):
        if node.level == 0 and node.module:
            self.names.add(node.module)
            self.names.update(f"{node.module}.{alias.name}" for alias in node.names)


def _top(files):
    return {file.partition("/")[0].removesuffix(".py") for file in files}


def _import_what_the_guest_imports():
    found = _Imports()
    for text in windlass_modules.TEXTS.values():
        try:
            found.visit(ast.parse(text))
        except SyntaxError:
            continue
    own = _top(windlass_modules.TEXTS)
    for name in [*windlass_modules.NAMES, *sorted(found.names)]:
        if name.partition(".")[0] not in own:
            try:
                importlib.import_module(name)
            except Exception:  # it may be the name of a function, or of a module that is not there
                pass
    windlass_modules.TEXTS = {}


class _Modules:
    """Finds the guest's modules among their texts."""

    def __init__(self, texts):
        self.texts = texts

    def find_spec(self, name, path=None, target=None):
        place = name.replace(".", "/")
        for file, is_package in ((f"{place}/__init__.py", True), (f"{place}.py", False)):
            if file in self.texts:
                return importlib.util.spec_from_loader(name, self, origin=file, is_package=is_package)
        if any(file.startswith(f"{place}/") for file in self.texts):
            return ModuleSpec(name, None, is_package=True)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        file = module.__spec__.origin
        module.__file__ = file
        exec(compile(self.texts[file], file, "exec", dont_inherit=True), module.__dict__)


_taken = None
_is_begun = False


def _take():
    """Imports the guest. The error is the name of a module that the base lacks, or empty."""
    given = json.loads(config.get())
    texts = given["modules"]
    if not _top(texts).isdisjoint(sys.modules):
        raise Err("")
    finders = sys.meta_path[:]
    # There are no files here any more.
    sys.meta_path[:] = [_Modules(texts), *(finder for finder in finders if finder is not PathFinder)]
    try:
        return component.exports(given["entry"], mapper=given["mapper"])
    except ModuleNotFoundError as error:
        raise Err(error.name or "") from None
    except BaseException:
        raise Err("") from None
    finally:
        sys.meta_path[:] = finders


def _begin():
    """Before the first call in an instance: all of them have the memory of one."""
    global _is_begun
    if not _is_begun:
        _is_begun = True
        random.seed()


class Reconciler:
    """The export `reconciler`."""

    def describe(self):
        global _taken
        if _taken is None:
            _taken = _take()
            return reconciler.Description("", None, [], [], [])
        _begin()
        return _taken[0]().describe()

    def reconcile(self, request, cluster):
        _begin()
        return _taken[0]().reconcile(request, cluster)


_import_what_the_guest_imports()
