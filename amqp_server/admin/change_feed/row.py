"""A row of a report: an object's number, what seldom changes of it, and its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Attributes = dict[str, Any]
"""What seldom changes of an object, by name: reported with its first row, and when it changes."""


@dataclass(frozen=True, slots=True)
class Report:
    """A part of the answer to one request: rows of one kind of objects.

    Attributes:
        kind: Kind of the objects.
        columns: Names of the values in each row.
        rows: For each object its number, its attributes or None, then its values.
        gone: Numbers of objects that are gone.
    """

    kind: str
    columns: Sequence[str]
    rows: list[list[Any]]
    gone: list[int]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "kind": self.kind,
            "columns": self.columns,
            "rows": self.rows,
            "gone": self.gone,
        }


REPORT_ROWS = 128
"""Most rows of one report."""
STEP_ROWS = 16
"""Rows, or objects that have not changed, in one step."""


def reports(
    kind: str, columns: Sequence[str], rows: Iterator[list[Any] | None], gone: Sequence[int]
) -> Iterator[Report | None]:
    """Collect rows in reports, some in each step.

    Args:
        kind: Kind of the objects.
        columns: Names of the values in each row.
        rows: The rows; None is a step that found nothing to report.
        gone: Numbers of objects that are gone.
    """
    some: list[list[Any]] = []
    for number, row in enumerate(rows, 1):
        if row is not None:
            some.append(row)
            if len(some) == REPORT_ROWS:
                yield Report(kind, columns, some, [])
                some = []
                continue
        if number % STEP_ROWS == 0:
            yield None
    for at in range(0, len(gone), 8 * REPORT_ROWS):
        yield Report(kind, columns, [], list(gone[at : at + 8 * REPORT_ROWS]))
    if some:
        yield Report(kind, columns, some, [])
