"""Finds attributes that are read before an `await` in the same expression and used after it.

    self._waiting.append(await self._record(commit))

looks `self._waiting` up, waits, and then appends. If another task has replaced the list during the
wait, nothing reads what was appended: a commit was lost so. `self.count += await more()` loses what
others have added. The value has to come first, on a line of its own:

    record = await self._record(commit)
    self._waiting.append(record)

`yield` and `yield from` are waits too: operations that are done in steps stop there. A method of a
local variable or of `self` is not looked at: `self._put(await page)` finds the same method later.
A place where nothing can change the attribute ends with `# read early: ` and the reason.

Run as `python -m tests.lint.early_reads`; exit code 1 if there are any.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

PACKAGES: Final = ("amqp_server", "appendlog", "cli", "metadata", "offsets", "ring")
ALLOWED: Final = "# read early: "
_REPOSITORY: Final = Path(__file__).parents[2]
_WAITS: Final = (ast.Await, ast.Yield, ast.YieldFrom)
_OTHER_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.GeneratorExp)


class EarlyRead(NamedTuple):
    """An attribute that is read before a wait and used after it.

    Attributes:
        line: Number of the line, from 1.
        attribute: What is read, as it stands in the source.
    """

    line: int
    attribute: str


def early_reads(source: str) -> list[EarlyRead]:
    """Return the early reads of a module, by line; those with a reason are left out."""
    lines = source.splitlines()
    found = {
        EarlyRead(read.lineno, ast.unparse(read))
        for node in ast.walk(ast.parse(source))
        for read in _read_before_a_wait(node)
    }
    return sorted(each for each in found if ALLOWED not in lines[each.line - 1])


def _read_before_a_wait(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the attributes among the operands of one node that are read before a later operand."""
    match node:
        case ast.Call(func=function):
            # The object of a method is looked up first; the method itself stays the same.
            looked_up = function.value if isinstance(function, ast.Attribute) else function
            operands = [looked_up, *node.args, *(keyword.value for keyword in node.keywords)]
        case ast.AugAssign():
            operands = [node.target, node.value]
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            operands = [each for pair in pairs for each in pair if each is not None]
        case ast.BinOp() | ast.Compare() | ast.Tuple() | ast.List() | ast.Set() | ast.Subscript():
            operands = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        case _:
            return
    for number, operand in enumerate(operands):
        if any(map(_waits, operands[number + 1 :])):
            yield from _attributes(operand)


def _attributes(operand: ast.expr) -> Iterator[ast.expr]:
    """Yield the attribute or the element that an operand is. Constants never change."""
    if isinstance(operand, ast.Attribute | ast.Subscript):
        if not (isinstance(operand, ast.Attribute) and operand.attr.isupper()):
            yield operand
    elif isinstance(operand, ast.Starred):
        yield from _attributes(operand.value)


def _waits(node: ast.AST) -> bool:
    if isinstance(node, _WAITS):
        return True
    if isinstance(node, _OTHER_SCOPES):
        return False
    return any(map(_waits, ast.iter_child_nodes(node)))


def main() -> int:
    """Look at the whole product; print each early read, and return the exit code."""
    paths = [path for name in PACKAGES for path in sorted((_REPOSITORY / name).rglob("*.py"))]
    count = 0
    for path in paths:
        for read in early_reads(path.read_text()):
            count += 1
            place = f"{path.relative_to(_REPOSITORY)}:{read.line}"
            print(f"{place}: {read.attribute} is read before a wait and used after it")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
