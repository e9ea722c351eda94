"""The blocks of code on the pages, and what a reader's page says about running them.

A block names its language. `text` is no code: what was printed, a layout, a drawing. A comment on
the line above a block says what a runner must know, and is not shown:

    <!-- not run: REASON -->     it cannot run on a machine of tests
    <!-- until stopped -->       its last command does not end by itself
    <!-- server stopped -->      no server runs meanwhile
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]

NO_CODE: Final = frozenset({"text"})
RUN: Final = frozenset({"sh", "console", "python", "sql"})
"""Languages of blocks that do something."""
READ: Final = frozenset({"json", "yaml", "toml", "ini"})
"""Languages of blocks that a program reads."""
FOREIGN: Final = frozenset({"go", "java", "js"})
"""Languages of the pages for other languages, each of which has a test of its own."""

_FENCE: Final = re.compile(r"^( *)```(.*)$")
_REMARK: Final = re.compile(
    r"<!-- (?:not run: (?P<reason>.+)|(?P<when>(?:until|server) stopped)) -->"
)


@dataclass(frozen=True)
class CodeBlock:
    """A block of code on a page.

    Attributes:
        line: Number of its first line on the page, after the fence.
        language: Word behind the fence; empty if there is none.
        text: Its lines, without what indents all of it.
        reason: Why it is not run; None if it is.
        when: `until stopped` or `server stopped`, see above; or empty.
    """

    line: int
    language: str
    text: str
    reason: str | None = None
    when: str = ""

    @property
    def is_code(self) -> bool:
        """Whether a program could run or read it."""
        return self.language not in NO_CODE and not self.language.startswith("flow-")


def code_blocks(page: Path) -> list[CodeBlock]:
    """Return all blocks of a page, in order.

    Raises:
        AssertionError: A fence without an end.
    """
    return list(_blocks(page))


def texts_of(page: Path, language: str) -> list[str]:
    """Return the blocks of one language."""
    return [block.text for block in code_blocks(page) if block.language == language]


def _blocks(page: Path) -> Iterator[CodeBlock]:
    before = ""
    lines = iter(enumerate(page.read_text().splitlines(), 1))
    for number, line in lines:
        if fence := _FENCE.match(line):
            indent, language = fence.groups()
            inside: list[str] = []
            for _, each in lines:
                if each == f"{indent}```":
                    break
                inside.append(each.removeprefix(indent))
            else:
                raise AssertionError(f"{page.name}:{number}: a block without an end")
            remark = _REMARK.fullmatch(before.strip())
            text = "".join(f"{each}\n" for each in inside)
            reason, when = remark.group("reason", "when") if remark else (None, None)
            yield CodeBlock(number + 1, language.strip(), text, reason, when or "")
        before = line
