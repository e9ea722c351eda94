"""Which names a module's code looks up when it runs: only patches of these have an effect.

mypyc compiles constants in, and calls functions and classes of its own without a look at their
names. A test that patches one of them would change nothing, and pass.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Final

_REPOSITORY: Final = Path(__file__).resolve().parent.parent
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class ModuleNames:
    """The names of one module, from its source.

    Args:
        source: Text of the module.

    Attributes:
        constants: Those marked `Final`.
        defined: Its functions and classes.
        imported: Module that an imported name comes from, and its name there.
        read: Names that its functions read, of theirs or of the module.
    """

    def __init__(self, source: str) -> None:
        tree = ast.parse(source)
        self.constants = set[str]()
        self.defined = set[str]()
        self.imported = dict[str, tuple[str, str]]()
        for node in tree.body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=name)):
                    if ast.unparse(node.annotation).startswith("Final"):
                        self.constants.add(name)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    self.defined.add(node.name)
                case ast.ImportFrom(module=str() as module):
                    for each in node.names:
                        self.imported[each.asname or each.name] = (module, each.name)
        self.read = {
            node.id
            for function in ast.walk(tree)
            if isinstance(function, _FUNCTIONS)
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }


def is_read(module: str, name: str) -> bool:
    """Return whether a function of one of our modules reads a name."""
    names = _names_of(module)
    return names is not None and name in names.read


def is_compiled_in(module: str, name: str, compiled: Collection[str]) -> bool:
    """Return whether compiled code that names something of a module does not look it up.

    Args:
        module: Module with dots; one that is not ours has no such names.
        name: What is looked for there.
        compiled: Modules that are compiled.
    """
    names = _names_of(module)
    if names is None:
        return False
    if name in names.imported:
        return is_compiled_in(*names.imported[name], compiled)
    return name in names.constants or (module in compiled and name in names.defined)


@cache
def _names_of(module: str) -> ModuleNames | None:
    place = _REPOSITORY.joinpath(*module.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.exists():
            return ModuleNames(path.read_text())
    return None
