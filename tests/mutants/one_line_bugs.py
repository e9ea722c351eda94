"""Every bug that one changed line of a module can be, found in its syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),  # codespell:ignore notin
}
OPERATIONS: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
}
NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
"""Functions and their opposites; the order of their arguments is nothing."""
LOGGERS: Final = frozenset({"logger", "_logger", "logging"})
TEXTS: Final = frozenset({"__repr__", "__str__"})
TYPE_CALLS: Final = frozenset({"cast", "TypeVar", "NewType", "ParamSpec"})
NOT_INTERPRETED: Final = "# pragma: no cover"
LAST: Final = 1 << 60
"""Behind the last line of every file."""


@dataclass(frozen=True)
class Bug:
    """One changed line.

    Attributes:
        path: File, below the repository.
        line: Number of the line, from 1.
        before: Its text, without the indentation.
        after: Its text with the bug.
        nth: How many lines above it have the same text: with that, lines elsewhere may come
            and go, and the bug is still the same one.
        scope: First and last line of the function around it; of the file when there is none.
    """

    path: str
    line: int
    before: str
    after: str
    nth: int
    scope: tuple[int, int] = (1, LAST)

    @property
    def key(self) -> str:
        """What it is called in results and in the list of equivalent ones."""
        return f"{self.path}|{self.nth}|{self.before}|{self.after}"

    def put_into(self, source: str) -> str:
        """Return the source with the bug; the source must be that it was found in."""
        lines = source.split("\n")
        old = lines[self.line - 1]
        assert old.strip() == self.before, f"{self.path}:{self.line} is another line"
        lines[self.line - 1] = old[: len(old) - len(old.lstrip())] + self.after
        return "\n".join(lines)

    def is_sound(self, source: str) -> bool:
        """Return whether the source with the bug still compiles, and does not mean the same."""
        try:
            tree = ast.parse(self.put_into(source))
            compile(tree, self.path, "exec")
        except SyntaxError:
            return False
        return ast.dump(tree) != ast.dump(ast.parse(source))


def bugs_of(path: str, source: str) -> list[Bug]:
    """Return all bugs that this knows for a module, in the order of its lines.

    None is in what only people or type checkers read: docstrings, annotations, assertions, texts,
    log lines, `__repr__`; and none in what only compiled kernels do. A few are
    unsound: ask them before they are used.
    """
    tree = ast.parse(source)
    finder = _Finder(source, tree)
    finder.visit(tree)
    bugs: dict[str, Bug] = {}
    lines = [line.strip() for line in source.split("\n")]
    for number, after, scope in finder.found:
        before = lines[number - 1]
        bug = Bug(path, number, before, after.strip(), lines[: number - 1].count(before), scope)
        if bug.before != bug.after:
            bugs.setdefault(bug.key, bug)
    return sorted(bugs.values(), key=lambda bug: bug.line)


class _Finder(ast.NodeVisitor):
    """Collects line, its text with a bug, and the function around it.

    Args:
        source: Of the module.
        tree: The same, parsed.
    """

    def __init__(self, source: str, tree: ast.Module) -> None:
        self.found: list[tuple[int, str, tuple[int, int]]] = []
        self._lines = source.split("\n")
        self._scope = (1, LAST)
        self._last = set(_last_statements(tree))

    def visit(self, node: ast.AST) -> None:
        """Look at a node and what is in it, unless nothing runs it."""
        if _is_only_read(node):
            return
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr):
            return
        if self._is_for_compiled(node):
            orelse = getattr(node, "orelse", [])
            self._bodies(orelse if isinstance(orelse, list) else [orelse])
            return
        if isinstance(node, ast.stmt):
            self._statement(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._function(node)
        elif isinstance(node, ast.ClassDef):
            self._bodies(node.body)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.visit(node.value)
        elif not isinstance(node, ast.Raise):
            getattr(self, f"visit_{type(node).__name__}", self._nothing)(node)
            self.generic_visit(node)

    def _nothing(self, node: ast.AST) -> None:
        """Find nothing in this kind of node; what is in it is looked at all the same."""

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer, self._scope = self._scope, (node.lineno, node.end_lineno or LAST)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._bodies(node.body)
        self._scope = outer

    def _bodies(self, body: Sequence[ast.AST]) -> None:
        for each in body:
            self.visit(each)

    def _is_for_compiled(self, node: ast.AST) -> bool:
        """Return whether the interpreted code does not run this, or only what is in its `else`."""
        if isinstance(node, ast.If | ast.IfExp) and _name(node.test) == "COMPILED":
            return True
        if not isinstance(node, ast.stmt):
            return False
        end = node.lineno
        if isinstance(node, ast.If | ast.FunctionDef):
            end = node.body[0].lineno - 1
        return any(NOT_INTERPRETED in line for line in self._lines[node.lineno - 1 : end])

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
            self._instead(node, "pass")
        elif isinstance(node, ast.Assign):
            if any(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets):
                self._instead(node, "pass")
        elif isinstance(node, ast.AugAssign | ast.Raise | ast.Delete):
            self._instead(node, "pass")
        elif isinstance(node, ast.Return) and not _is_falsy(node.value):
            self._instead(node, "return None")
        elif isinstance(node, ast.Continue):
            self._instead(node, "break")
        elif isinstance(node, ast.Break):
            self._instead(node, "continue")
        if self._scope[1] != LAST and node not in self._last and _does_something(node):
            self._instead(node, "return")
        if isinstance(node, ast.If | ast.While):
            self._negated(node.test)
        if isinstance(node, ast.AugAssign) and type(node.op) in OPERATIONS:
            old, new = OPERATIONS[type(node.op)]
            self._between(node.target, node.value, f"{old}=", f"{new}=")

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negated(node.test)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for each in node.ifs:
            self._negated(each)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            self._between(left, right, *COMPARISONS[type(operator)])
            left = right

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPERATIONS:
            self._between(node.left, node.right, *OPERATIONS[type(node.op)])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, *words)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            self._instead(node, self._text(node.operand))

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._instead(node, str(not node.value))
        elif isinstance(node.value, int):
            self._instead(node, f"{node.value + 1}")
            if node.value:
                self._instead(node, f"{node.value - 1}")

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound in (node.lower, node.upper):
            if bound is not None:
                self._instead(bound, "")

    def visit_Await(self, node: ast.Await) -> None:
        """Calls are dropped with their statement; what is awaited is found within."""

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in NAMES:
            self._instead(node.func, NAMES[node.func.id])
        if _name(node.func) not in NAMES:
            for first, second in zip(node.args, node.args[1:], strict=False):
                self._swapped(first, second)
        for keyword in node.keywords:
            if keyword.arg is not None:
                self._without(keyword)

    def _negated(self, test: ast.expr) -> None:
        self._instead(test, f"not ({self._text(test)})")

    def _swapped(self, first: ast.expr, second: ast.expr) -> None:
        if first.lineno != second.end_lineno:
            return
        line = self._octets(first.lineno)
        a = slice(first.col_offset, first.end_col_offset)
        b = slice(second.col_offset, second.end_col_offset)
        self._add(
            first.lineno,
            line[: a.start] + line[b] + line[a.stop : b.start] + line[a] + line[b.stop :],
        )

    def _without(self, keyword: ast.keyword) -> None:
        if keyword.lineno != keyword.end_lineno:
            return
        line = self._octets(keyword.lineno)
        start, end = keyword.col_offset, keyword.end_col_offset or 0
        if line[:start].endswith(b", "):
            start -= 2
        elif line[end : end + 2] == b", ":
            end += 2
        elif line[end : end + 1] == b",":
            end += 1
        self._add(keyword.lineno, line[:start] + line[end:])

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Change the operator between two operands, on whichever line it stands."""
        word = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)".encode())
        for number in range(left.end_lineno or 0, right.lineno + 1):
            line = self._octets(number)
            start = (left.end_col_offset or 0) if number == left.end_lineno else 0
            end = right.col_offset if number == right.lineno else len(line)
            match = word.search(line.split(b"  # ")[0], start, end)
            if match:
                self._add(number, line[: match.start()] + new.encode() + line[match.end() :])
                return

    def _instead(self, node: ast.expr | ast.stmt, new: str) -> None:
        if node.lineno == node.end_lineno:
            line = self._octets(node.lineno)
            self._add(
                node.lineno, line[: node.col_offset] + new.encode() + line[node.end_col_offset :]
            )

    def _text(self, node: ast.expr) -> str:
        line = self._octets(node.lineno)
        return line[node.col_offset : node.end_col_offset].decode()

    def _octets(self, number: int) -> bytes:
        """Return a line as the syntax tree counts its columns: in octets."""
        return self._lines[number - 1].encode()

    def _add(self, number: int, line: bytes) -> None:
        self.found.append((number, line.decode(), self._scope))


def _is_only_read(node: ast.AST) -> bool:
    """Return whether nothing, or nothing but people and type checkers, looks at this node."""
    match node:
        case ast.FunctionDef(name=name, decorator_list=decorators):
            return name in TEXTS or any(_name(each) == "overload" for each in decorators)
        case ast.ClassDef(bases=bases):
            return any(_name(each) == "Protocol" for each in bases)
        case ast.If(test=test):
            return _name(test) == "TYPE_CHECKING"
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
            return _name(owner) in LOGGERS
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in {"__all__", "__slots__"}
        case ast.Call(func=function):
            return _name(function) in TYPE_CALLS
    return False


def _last_statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Return what nothing follows in its block: to return instead of it is to drop it."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if block and isinstance(block, list):
                yield block[-1]


def _does_something(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call | ast.Await) and not _is_only_read(node)
    return isinstance(node, ast.Assign | ast.AugAssign)


def _is_falsy(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and not node.value)


def _name(node: ast.AST) -> str:
    """Return the last name of `a.b.c` or `c[x]`; empty when it has none."""
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
