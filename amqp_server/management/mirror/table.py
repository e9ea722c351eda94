"""All objects of one kind, as the mirror shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from amqp_server.management.mirror.fields import moment_text
from amqp_server.management.mirror.row import GAUGES, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from amqp_server.management.mirror.row import Ticks
    from amqp_server.management.mirror.series import Resolution


class Kind(NamedTuple):
    """What differs between the kinds of objects.

    Attributes:
        key_of: Returns the key of an object from its attributes.
        fields_of: Returns its fields from its attributes and values.
        resolutions: How its samples are kept; none: it has none.
        counted: Fields of which samples are kept, beside `message_stats`.
        shows_idle: Whether an object that does nothing shows since when.
    """

    key_of: Callable[[Mapping[str, Any]], Any]
    fields_of: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]
    resolutions: Sequence[Resolution]
    counted: Sequence[str] = GAUGES
    shows_idle: bool = False


class Table:
    """The rows of one kind of objects.

    Args:
        kind: What is special about the kind.
        ticks: When samples are taken.

    Attributes:
        rows: The rows by key; readers must not change it.
        changed: Rows that have changed since the last samples.
    """

    def __init__(self, kind: Kind, ticks: Ticks) -> None:
        self.rows: dict[Any, Row] = {}
        self.changed: dict[Row, None] = {}
        self._kind = kind
        self._ticks = ticks
        self._by_number: dict[int, Row] = {}
        self._attributes: dict[int, dict[str, Any]] = {}
        self._reported: set[int] | None = None
        # The rows that had changed at the last samples, and when these were taken.
        self._active: dict[Row, None] = {}
        self._active_seconds = 0

    def begin_whole(self) -> None:
        """Record which objects are reported until `end_whole`, because all are reported."""
        self._reported = set()

    def end_whole(self) -> list[Row]:
        """Remove and return the objects that were not reported since `begin_whole`."""
        if self._reported is None:
            return []
        reported, self._reported = self._reported, None
        return self.remove([number for number in self._by_number if number not in reported])

    def clear(self) -> None:
        """Remove everything: the broker has started again."""
        self.remove(tuple(self._by_number))
        self._reported = None

    def take(
        self, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, is_first: bool
    ) -> Iterator[tuple[Row, dict[str, Any], dict[str, Any]]]:
        """Change what a report says; return each row with its values and its fields before.

        Args:
            columns: Names of the values.
            rows: For each object its number, its attributes or None, and its values.
            is_first: Whether the mirror learns of all objects now: it does not know when they
                began.
        """
        for number, attributes, *values in rows:
            if self._reported is not None:
                self._reported.add(number)
            if attributes is None:
                attributes = self._attributes.get(number)
                if attributes is None:
                    # It is gone, and the report was on its way.
                    continue
            else:
                self._attributes[number] = attributes
            row = self._by_number.get(number)
            if row is None:
                row = self._add(number, attributes, is_first=is_first)
            else:
                row.begin_change()
            before = row.fields
            by_name = dict(zip(columns, values, strict=True))
            row.fields = self._kind.fields_of(attributes, by_name)
            if is_first:
                self._show_idle(row)
            elif self._kind.resolutions:
                self.changed[row] = None
            yield row, by_name, before

    def _add(self, number: int, attributes: dict[str, Any], *, is_first: bool) -> Row:
        row = Row(
            self._ticks,
            self._kind.resolutions,
            is_new=not is_first,
            counted=self._kind.counted,
        )
        row.number = number
        row.key = self._kind.key_of(attributes)
        self._by_number[number] = row
        self.rows[row.key] = row
        return row

    def remove(self, numbers: Sequence[int]) -> list[Row]:
        """Remove objects that are gone; return their rows. Unknown numbers are ignored."""
        removed: list[Row] = []
        for number in numbers:
            row = self._by_number.pop(number, None)
            self._attributes.pop(number, None)
            if row is None:
                continue
            self.changed.pop(row, None)
            # Another object may have its name by now.
            if self.rows.get(row.key) is row:
                del self.rows[row.key]
            removed.append(row)
        return removed

    def take_samples(self) -> None:
        """Take samples of the rows that have changed since the last call."""
        changed, self.changed = self.changed, {}
        for row in changed:
            row.sample()
        for row in self._active:
            if row not in changed:
                self._show_idle(row)
        self._active = changed
        self._active_seconds = self._ticks.last_seconds

    def _show_idle(self, row: Row) -> None:
        """Show since when nothing has happened to an object."""
        if self._kind.shows_idle and self._active_seconds:
            row.fields["idle_since"] = moment_text(self._active_seconds * 1000)
