"""Finds limits of time in tests that a busy machine may reach.

    assert result.get(timeout=5) == 3

passes on an idle machine. A test waits for events; its limit is a guard against hangs:
`HANG_SECONDS` of `tests/limits.py`, or a minute at least. Looked at are keywords such as
`timeout=`, the numbers of `wait`, `join`, `result`, `settimeout`, `asyncio.timeout` and `wait_for`,
and constants whose names say that they are a limit. What is below `PAUSE` is a pause between two
looks, or no wait at all. Where a short time is what the test is about, or can only make it pass
later, the line ends with `# short: ` and the reason.

Run as `python -m tests.lint.short_waits`; exit code 1 if there are any.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

FOLDERS: Final = ("tests",)
ALLOWED: Final = "# short: "
MINUTE: Final = 60
"""Seconds that no wait reaches because other programs run."""
PAUSE: Final = 0.1
_REPOSITORY: Final = Path(__file__).parents[2]
_KEYWORDS: Final = frozenset(
    {
        "answer_seconds",
        "inactivity_timeout",
        "seconds_max",
        "time_limit",
        "timeout",
        "timeout_seconds",
    }
)
_CALLS: Final = {
    "join": 0,
    "result": 0,
    "settimeout": 0,
    "timeout": 0,
    "wait": 0,
    "wait_for": 1,
}
"""Functions and methods that wait, and which of their arguments is the limit."""
_NAME: Final = re.compile(r"_?([A-Z_]*_)?(SECONDS_MAX|TIMEOUT|TIMEOUT_SECONDS|DEADLINE)")


class ShortWait(NamedTuple):
    """A limit below a minute.

    Attributes:
        line: Number of the line, from 1.
        seconds: The limit.
    """

    line: int
    seconds: float


def short_waits(source: str) -> list[ShortWait]:
    """Return the short limits of a module, by line; those with a reason are left out."""
    lines = source.splitlines()
    found = {
        ShortWait(value.lineno, value.value)
        for node in ast.walk(ast.parse(source))
        for value in _limits(node)
        if isinstance(value, ast.Constant)
        and isinstance(value.value, int | float)
        and not isinstance(value.value, bool)
        and PAUSE <= value.value < MINUTE
    }
    return sorted(each for each in found if ALLOWED not in lines[each.line - 1])


def _limits(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what one node waits for at most."""
    match node:
        case ast.Call(func=function):
            name = function.attr if isinstance(function, ast.Attribute) else None
            at = _CALLS.get(name or "")
            if at is not None and len(node.args) > at:
                yield node.args[at]
            yield from (each.value for each in node.keywords if each.arg in _KEYWORDS)
        case ast.Assign(targets=[ast.Name(id=name)]) if _NAME.fullmatch(name):
            yield node.value
        case ast.AnnAssign(target=ast.Name(id=name)) if _NAME.fullmatch(name) and node.value:
            yield node.value
        case ast.arguments():
            defaults = zip(reversed(node.args), reversed(node.defaults), strict=False)
            yield from (value for each, value in defaults if each.arg in _KEYWORDS)
            pairs = zip(node.kwonlyargs, node.kw_defaults, strict=True)
            yield from (value for each, value in pairs if value and each.arg in _KEYWORDS)


def main() -> int:
    """Look at all tests; print each short limit, and return the exit code."""
    paths = [path for name in FOLDERS for path in sorted((_REPOSITORY / name).rglob("*.py"))]
    count = 0
    for path in paths:
        for wait in short_waits(path.read_text()):
            count += 1
            place = f"{path.relative_to(_REPOSITORY)}:{wait.line}"
            print(f"{place}: waits {wait.seconds} s; HANG_SECONDS, or `{ALLOWED}` and why")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
