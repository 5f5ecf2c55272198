"""The base of a guest: Python, the SDK and packages, without the guest's own modules. Written by `windlass dev`.

The first call of `describe` takes the guest's modules as the config. `windlass dev` keeps the memory that this call leaves.
"""

import ast
import builtins
import importlib
import importlib.util
import io
import json
import os
import random
import sys
from importlib.machinery import ModuleSpec, PathFinder

import windlass_modules
from componentize_py_types import Err
from windlass import component
from wit_world.exports import reconciler
from wit_world.imports import config


class _Modules:
    """Finds the guest's modules among their texts: of each folder of modules a map from files to texts, the first one first."""

    def __init__(self, folders):
        self.folders = folders

    def locate(self, name):
        """The file of a module, whether it is a package, and its text."""
        place = name.replace(".", "/")
        for texts in self.folders:
            for file, is_package in ((f"{place}/__init__.py", True), (f"{place}.py", False)):
                if file in texts:
                    return file, is_package, texts[file]
        return None

    def has_below(self, name):
        """Whether a folder has modules, and is no package."""
        below = name.replace(".", "/") + "/"
        return any(file.startswith(below) for texts in self.folders for file in texts)

    def find_spec(self, name, path=None, target=None):
        found = self.locate(name)
        if found:
            file, is_package, _ = found
            spec = importlib.util.spec_from_loader(name, self, origin=file, is_package=is_package)
        elif self.has_below(name):
            spec, is_package = ModuleSpec(name, None, is_package=True), True
        else:
            return None
        if is_package:
            # A folder that is not there, so that who lists it is noticed.
            spec.submodule_search_locations = ["/" + name.replace(".", "/")]
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        file, _, text = self.locate(module.__name__)
        module.__file__ = file
        exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)


class _Imports(ast.NodeVisitor):
    """The modules that a module imports as soon as it is imported itself."""

    def __init__(self, name, is_package):
        self.package = name if is_package else name.rpartition(".")[0]
        self.names = []

    def visit_FunctionDef(self, node):
        pass

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_Import(self, node):
        self.names += [alias.name for alias in node.names]

    def visit_ImportFrom(self, node):
        name = node.module or ""
        if node.level:
            try:
                name = importlib.util.resolve_name("." * node.level + name, self.package)
            except ImportError:
                return
        self.names += [name, *(f"{name}.{alias.name}" for alias in node.names)]


def _import_what_the_guest_imports():
    modules = _Modules(windlass_modules.FOLDERS)
    waiting, seen = [*windlass_modules.NAMES, windlass_modules.ENTRY], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        waiting += [name.rpartition(".")[0]] if "." in name else []
        found = modules.locate(name)
        if found:
            _, is_package, text = found
            imports = _Imports(name, is_package)
            try:
                imports.visit(ast.parse(text))
            except (SyntaxError, ValueError):
                continue
            waiting += imports.names
        elif not modules.locate(name.partition(".")[0]):
            try:
                importlib.import_module(name)
            except Exception:  # it may be the name of a function, or of a module that is not there
                pass
    windlass_modules.FOLDERS = []


class _Missed:
    """Stands behind all that find modules, and knows what they did not find."""

    def __init__(self):
        self.names = []

    def find_spec(self, name, path=None, target=None):
        self.names.append(name)
        return None


class _Reads:
    """Notices who looks at files while modules are imported: there are none here."""

    PLACES = (
        (os, ("access", "listdir", "lstat", "open", "scandir", "stat", "walk")),
        (io, ("open", "open_code")),
        (builtins, ("open",)),
    )

    def __init__(self):
        self.any = False
        self.before = [(module, name, getattr(module, name)) for module, names in self.PLACES for name in names]

    def __enter__(self):
        for module, name, function in self.before:
            setattr(module, name, self.noticed(function))
        return self

    def noticed(self, function):
        def noticing(*arguments, **named):
            self.any = True
            return function(*arguments, **named)

        return noticing

    def __exit__(self, *error):
        for module, name, function in self.before:
            setattr(module, name, function)


_taken = None
_is_begun = False


def _take():
    """Imports the guest. The error is the name of a module that a base should have, or empty: the guest cannot be made of a base."""
    given = json.loads(config.get())
    modules, missed = _Modules(given["folders"]), _Missed()
    if any(modules.locate(name) for name in sys.modules if "." not in name):
        raise Err("")
    finders = sys.meta_path[:]
    sys.meta_path[:] = [modules, *(finder for finder in finders if finder is not PathFinder), missed]
    failure = None
    try:
        with _Reads() as reads:
            made = component.exports(given["entry"], mapper=given["mapper"])
    except BaseException as error:
        failure = error
    finally:
        sys.meta_path[:] = finders
    # Also what the guest can do without.
    for name in missed.names:
        if name not in windlass_modules.NAMES and not modules.locate(name.partition(".")[0]):
            raise Err(name)
    if failure is not None or reads.any:
        raise Err("")
    modules.folders = []
    return made


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
