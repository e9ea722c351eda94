"""Report of an import that was done, or would be done."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Any, Final

LINES_MAX: Final = 1000
"""Lines of each kind that a report has; the counts are of all."""


class Outcome(StrEnum):
    """Outcome of one entry."""

    CREATED = "created"
    EQUAL = "equal"
    CHANGED = "changed"
    DIFFERENT = "different"
    SKIPPED = "skipped"


class ImportReport:
    """Counts entries by section and outcome, and names those that an operator should look at.

    Attributes:
        counts: Number of entries by section, then by outcome.
        different: Existing queues and exchanges that stay as they are although the file has other
            values: place and difference.
        skipped: Entries without effect: place and reason.
    """

    def __init__(self) -> None:
        self.counts: dict[str, Counter[Outcome]] = {}
        self.different: list[str] = []
        self.skipped: list[str] = []

    def note(self, section: str, outcome: Outcome, line: str = "") -> None:
        """Count an entry.

        Args:
            section: Its section.
            outcome: What becomes of it.
            line: Place and reason, for what is different or skipped.
        """
        self.counts.setdefault(section, Counter())[outcome] += 1
        lines = {Outcome.DIFFERENT: self.different, Outcome.SKIPPED: self.skipped}.get(outcome)
        if lines is not None and line and len(lines) < LINES_MAX:
            lines.append(line)

    def total(self, outcome: Outcome) -> int:
        """Return the number of entries with an outcome."""
        return sum(counts[outcome] for counts in self.counts.values())

    @property
    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "sections": {
                section: {outcome.value: counts[outcome] for outcome in Outcome}
                for section, counts in self.counts.items()
            },
            "different": self.different,
            "skipped": self.skipped,
        }
