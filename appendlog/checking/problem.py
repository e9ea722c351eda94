"""What a check found wrong."""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

PROBLEMS_MAX: Final = 1000
"""Problems of one log that are kept; the others are counted."""


class Level(IntEnum):
    """How bad it is; the worst counts."""

    HARMLESS = 1
    """No message is touched: a start, or a reader, mends it or goes past it."""
    DAMAGE = 2
    """Something that was once on the disk cannot be read, or two files contradict each other."""
    UNREADABLE = 3
    """A queue or a definition cannot be opened."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it should be.

    Attributes:
        level: How bad.
        kind: What, as one word for programs: `torn-tail`, `damaged-chunk`, ...
        path: File or directory.
        text: What was found and what expected.
        position: Where in the file; None when that says nothing.
        offsets: Offsets `[start, end)` that cannot be read because of it, if it is known.
    """

    level: Level
    kind: str
    path: Path
    text: str
    position: int | None = None
    offsets: tuple[int, int] | None = None


class Problems:
    """The problems of one log, in the order they were met; bounded."""

    def __init__(self) -> None:
        self.kept: list[Problem] = []
        self.left_out = 0

    def add(self, problem: Problem) -> None:
        """Keep a problem, or count it when there are too many."""
        if len(self.kept) < PROBLEMS_MAX:
            self.kept.append(problem)
        else:
            self.left_out += 1
