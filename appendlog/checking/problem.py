"""Problems that a check finds."""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

PROBLEMS_MAX: Final = 1000
"""Maximum number of stored problems per log; further ones are only counted."""


class Level(IntEnum):
    """Severity of a problem; the worst one decides."""

    HARMLESS = 1
    """No message is affected: a start repairs it, or readers skip it."""
    DAMAGE = 2
    """Data that was on the disk once cannot be read, or two files contradict each other."""
    UNREADABLE = 3
    """A queue or a definition cannot be opened."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A single problem of a log.

    Attributes:
        level: Severity.
        kind: One word for programs: `torn-tail`, `damaged-chunk`, ...
        path: File or directory.
        text: What was found, and what was expected.
        position: Position in the file; None if that does not apply.
        offsets: Offsets `[start, end)` that cannot be read because of it, if known.
    """

    level: Level
    kind: str
    path: Path
    text: str
    position: int | None = None
    offsets: tuple[int, int] | None = None


class Problems:
    """Problems of one log, in the order in which they were found; bounded."""

    def __init__(self) -> None:
        self.kept: list[Problem] = []
        self.left_out = 0

    def add(self, problem: Problem) -> None:
        """Store a problem, or only count it if there are too many."""
        if len(self.kept) < PROBLEMS_MAX:
            self.kept.append(problem)
        else:
            self.left_out += 1
