"""Finds patches of our names that would do nothing, without a word, if the name were gone.

    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0, raising=False)
    mock.patch("amqp_server.base.time_slice.SLICE_SECONDS", 0.0, create=True)
    time_slice.SLICE_SECONDS = 0.0

Each makes a new attribute if a rename has taken the old one away. The test then runs with the real
value, and passes. `raising=False` and `create=True` are found on every name of ours, and on names
that only the run knows. An assignment, or `setattr`, is found if the module or class that the file
imports has no such attribute today. Texts that tests give to other interpreters are looked at too.
A place that must work with and without the name ends with `# may be missing: ` and the reason.

Run as `python -m tests.lint.silent_patches`; exit code 1 if there are any.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Final, NamedTuple

FOLDERS: Final = ("tests", "bench")
PACKAGES: Final = (
    "amqp_server",
    "appendlog",
    "bench",
    "cli",
    "metadata",
    "offsets",
    "pyspark_amqplog",
    "ring",
)
ALLOWED: Final = "# may be missing: "
_REPOSITORY: Final = Path(__file__).parents[2]
_OURS: Final = (*PACKAGES, "tests")
_PATCHES: Final = {"setattr": 3, "delattr": 2}
"""Methods of `pytest.MonkeyPatch`, and the place of `raising` with two names of the attribute."""
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

Imported = Mapping[str, str]
"""Names of a scope, each with what it was imported as: `time_slice`, `amqp_server.base.time_slice`.

A name that is something else in an inner scope is the empty text there.
"""


class SilentPatch(NamedTuple):
    """A patch that could do nothing.

    Attributes:
        line: Number of the line, from 1.
        fault: What it is, for people.
    """

    line: int
    fault: str


def silent_patches(source: str) -> list[SilentPatch]:
    """Return the silent patches of a module, by line; those with a reason are left out."""
    lines = source.splitlines()
    found = set(_of_tree(ast.parse(source)))
    return sorted(each for each in found if ALLOWED not in lines[each.line - 1])


def _of_tree(tree: ast.Module) -> Iterator[SilentPatch]:
    yield from _of_scope(tree, {})
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            code = _code(node.value)
            # Lines in a text are not those of the file: the text is the place.
            yield from (SilentPatch(node.lineno, each.fault) for each in _of_scope(code, {}))


def _code(text: str) -> ast.Module:
    """Return the tree of a text that is code for another interpreter, or an empty tree."""
    if "import " in text:
        with suppress(SyntaxError, ValueError):
            return ast.parse(dedent(text))
    return ast.Module([], [])


def _of_scope(scope: ast.AST, outer: Imported) -> Iterator[SilentPatch]:
    """Yield what is found in a module or function; classes share the scope around them here."""
    nodes = list(_inside(scope))
    imported = {**outer, **dict.fromkeys(_bound(scope, nodes), "")}
    for node in nodes:
        imported.update(_imports(node))
    for node in nodes:
        if isinstance(node, _FUNCTIONS):
            yield from _of_scope(node, imported)
        else:
            yield from _of_node(node, imported)


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of one scope, and inner functions without what is in them."""
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            pending += ast.iter_child_nodes(node)


def _bound(scope: ast.AST, nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the names that a function or module makes its own, other than by imports."""
    shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if name not in shared:
                yield name
            case ast.arg(arg=name):
                yield name


def _imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Import(names=names):
            for each in names:
                root = each.name.partition(".")[0]
                yield (each.asname, each.name) if each.asname else (root, root)
        case ast.ImportFrom(module=str() as module, names=names, level=0):
            for each in names:
                yield each.asname or each.name, f"{module}.{each.name}"


def _of_node(node: ast.AST, imported: Imported) -> Iterator[SilentPatch]:
    match node:
        case ast.Call():
            yield from _of_call(node, imported)
        case ast.Attribute(value=owner, attr=name, ctx=ast.Store()):
            yield from _of_assignment(owner, name, imported)


def _of_call(call: ast.Call, imported: Imported) -> Iterator[SilentPatch]:
    function = ast.unparse(call.func)
    keywords = {each.arg: each.value for each in call.keywords}
    name = function.rpartition(".")[2]
    if "patch" in function.split(".") and _is(keywords.get("create"), True):
        if _may_be_ours(call, imported):
            yield SilentPatch(call.lineno, f"{function} with create=True")
    elif "." in function and name in _PATCHES:
        raising = keywords.get("raising")
        if raising is None and len(call.args) > _PATCHES[name]:
            raising = call.args[_PATCHES[name]]
        if _is(raising, False) and _may_be_ours(call, imported):
            yield SilentPatch(call.lineno, f"{function} with raising=False")
    elif function == "setattr" and len(call.args) == 3:
        attribute = call.args[1]
        if isinstance(attribute, ast.Constant) and isinstance(attribute.value, str):
            yield from _of_assignment(call.args[0], attribute.value, imported)


def _is(value: ast.expr | None, wanted: bool) -> bool:
    return isinstance(value, ast.Constant) and value.value is wanted


def _may_be_ours(call: ast.Call, imported: Imported) -> bool:
    """Return whether a patch is for one of our names, or for one that only the run knows."""
    if not call.args:
        return True
    match call.args[0]:
        case ast.Constant(value=str() as path):
            return path.partition(".")[0] in _OURS
        case ast.Name() | ast.Attribute() as owner:
            path = _path(owner, imported)
            return not path or path.partition(".")[0] in _OURS
    return True


def _path(owner: ast.expr, imported: Imported) -> str:
    """Return what a name with dots is, from its import on; empty if it was not imported."""
    root, *rest = ast.unparse(owner).split(".")
    start = imported.get(root, "")
    return ".".join((start, *rest)) if start else ""


def _of_assignment(owner: ast.expr, name: str, imported: Imported) -> Iterator[SilentPatch]:
    if not isinstance(owner, ast.Name | ast.Attribute):
        return
    path = _path(owner, imported)
    if path.partition(".")[0] in PACKAGES and not _has(path.split("."), name):
        yield SilentPatch(owner.lineno, f"{path} has no attribute {name!r}")


def _has(path: list[str], name: str) -> bool:
    """Return whether the module or object at a path has an attribute; True if nothing can tell."""
    for count in range(len(path), 0, -1):
        try:
            found: object = import_module(".".join(path[:count]))
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in PACKAGES:
                # A library that is not installed here: the test does not run either.
                return True
            continue
        for each in path[count:]:
            found = getattr(found, each, None)
        return hasattr(found, name)
    return False


def patches_of_repository() -> list[str]:
    """Return the silent patches of all tests and measurements: place and fault, one line each."""
    paths = [path for name in FOLDERS for path in sorted((_REPOSITORY / name).rglob("*.py"))]
    return [
        f"{path.relative_to(_REPOSITORY)}:{patch.line}: {patch.fault}"
        for path in paths
        for patch in silent_patches(path.read_text())
    ]


def main() -> int:
    """Look at all tests and measurements; print each silent patch, and return the exit code."""
    found = patches_of_repository()
    for line in found:
        print(f"{line}; name what exists, or `{ALLOWED}` and why")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
