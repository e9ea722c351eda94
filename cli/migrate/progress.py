"""Shows how far the moves are: a table on a terminal, else a line from time to time, or JSON."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol

import click
import orjson

from cli.display import rough_size, shown
from cli.migrate.queue_move import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.migrate.queue_move import QueueMove

TERMINAL_SECONDS: Final = 1.0
LINES_SECONDS: Final = 5.0
_LINES_AROUND: Final = 5
"""Lines of the terminal that the rows of the table leave free."""
_ROWS_MIN: Final = 3


class Progress(Protocol):
    """Shows how far the moves are.

    Attributes:
        interval_seconds: How often it wants to be called.
    """

    interval_seconds: float

    def show(self, moves: Sequence[QueueMove], publishers: Sequence[str] | None) -> None:
        """Show the state now.

        Args:
            moves: All moves.
            publishers: Connections of the source that have published; None: not known.
        """

    def say(self, line: str) -> None:
        """Show a line that stays."""

    def end(self) -> None:
        """Leave what is shown last as it is."""


def progress_for(*, as_json: bool) -> Progress:
    """Return what fits to the output."""
    if as_json:
        return JsonProgress()
    return TableProgress() if sys.stderr.isatty() else LineProgress()


class Rates:
    """Messages a second of each queue since the last look."""

    def __init__(self) -> None:
        self._moved: dict[tuple[str, str], int] = {}
        self._at = time.monotonic()

    def look(self, moves: Sequence[QueueMove]) -> dict[tuple[str, str], float]:
        """Return the rates, by virtual host and name."""
        now = time.monotonic()
        seconds = max(now - self._at, 0.001)
        self._at = now
        rates = {}
        for move in moves:
            key = move.vhost, move.name
            rates[key] = (move.moved - self._moved.get(key, 0)) / seconds
            self._moved[key] = move.moved
        return rates


class JsonProgress:
    """One JSON object a line, on standard output."""

    interval_seconds = LINES_SECONDS

    def __init__(self) -> None:
        self._rates = Rates()

    def show(self, moves: Sequence[QueueMove], publishers: Sequence[str] | None) -> None:
        """Write the totals, and a row for each queue that is not done."""
        rates = self._rates.look(moves)
        write_event(
            "progress",
            {
                **_totals(moves),
                "rate": round(sum(rates.values()), 1),
                "publishers": None if publishers is None else list(publishers),
                "queues": [
                    _row(move, rates[move.vhost, move.name]) for move in moves if not move.is_done
                ],
            },
        )

    def say(self, line: str) -> None:
        """Write a line as an object."""
        write_event("note", {"text": line})

    def end(self) -> None:
        """Do nothing: each line stands for itself."""


class LineProgress:
    """A line on standard error from time to time."""

    interval_seconds = LINES_SECONDS

    def __init__(self) -> None:
        self._rates = Rates()
        self._last = ""

    def show(self, moves: Sequence[QueueMove], publishers: Sequence[str] | None) -> None:
        """Write the totals, unless they are the same as before."""
        line = summary(moves, sum(self._rates.look(moves).values()), publishers)
        if line != self._last:
            self._last = line
            click.echo(line, err=True)

    def say(self, line: str) -> None:
        """Write a line."""
        click.echo(shown(line), err=True)

    def end(self) -> None:
        """Do nothing: each line stands for itself."""


class TableProgress:
    """A table on the terminal that is drawn again in its place."""

    interval_seconds = TERMINAL_SECONDS

    def __init__(self) -> None:
        self._rates = Rates()
        self._drawn: list[str] = []

    def show(self, moves: Sequence[QueueMove], publishers: Sequence[str] | None) -> None:
        """Draw the table."""
        rates = self._rates.look(moves)
        columns, height = shutil.get_terminal_size()
        rows_max = max(height - _LINES_AROUND, _ROWS_MIN)
        lines = table_lines(moves, rates, rows_max)
        lines.append(summary(moves, sum(rates.values()), publishers))
        self._clear()
        self._draw([line[: columns - 1] for line in lines])

    def say(self, line: str) -> None:
        """Write a line above the table."""
        drawn = self._drawn
        self._clear()
        click.echo(shown(line), err=True)
        self._draw(drawn)

    def end(self) -> None:
        """Leave the last table on the terminal."""
        self._drawn = []

    def _clear(self) -> None:
        if self._drawn:
            click.echo(f"\033[{len(self._drawn)}A\033[J", err=True, nl=False)
            self._drawn = []

    def _draw(self, lines: list[str]) -> None:
        self._drawn = lines
        for line in lines:
            click.echo(line, err=True)


def table_lines(
    moves: Sequence[QueueMove], rates: dict[tuple[str, str], float], rows_max: int
) -> list[str]:
    """Return a header and the rows that matter most: what moves, then what is stuck."""
    ranked = sorted(moves, key=lambda move: (move.is_done, not move.is_busy, -(move.left or 0)))
    lines = [f"{'LEFT':>10} {'MOVED':>10} {'RATE/S':>8}  {'STATE':<20} QUEUE"]
    for move in ranked[:rows_max]:
        left = "?" if move.left is None else str(move.left)
        rate = rates[move.vhost, move.name]
        name = shown(move.name) if move.vhost == "/" else f"{shown(move.vhost)} {shown(move.name)}"
        lines.append(f"{left:>10} {move.moved:>10} {rate:>8.0f}  {move.state:<20} {name}")
    hidden = Counter(move.state for move in ranked[rows_max:])
    if hidden:
        listed = ", ".join(f"{count} {state}" for state, count in sorted(hidden.items()))
        lines.append(f"and {hidden.total()} more queues: {listed}")
    return lines


def summary(moves: Sequence[QueueMove], rate: float, publishers: Sequence[str] | None) -> str:
    """Return the totals in one line."""
    totals = _totals(moves)
    line = (
        f"moved {totals['moved']} messages ({rough_size(totals['moved_bytes'])}), "
        f"{rate:.0f} a second; left {totals['left']}; "
        f"{totals['done']} of {totals['queue_count']} queues empty or copied"
    )
    stuck = Counter(move.state for move in moves if move.state in _STUCK)
    line += "".join(f"; {count} {state}" for state, count in sorted(stuck.items()))
    if publishers is not None:
        line += f"; {publishers_text(publishers)}"
    return line


_STUCK: Final = (State.FULL, State.HELD, State.REFUSED, State.AWAY)


def publishers_text(publishers: Sequence[str]) -> str:
    """Return who still publishes at the source, in a few words."""
    if not publishers:
        return "no publishers at the source"
    listed = ", ".join(shown(name) for name in publishers[:3])
    more = f" and {len(publishers) - 3} more" if len(publishers) > 3 else ""
    connections = "connection" if len(publishers) == 1 else "connections"
    return f"publishers of the source: {len(publishers)} {connections} ({listed}{more})"


def write_event(event: str, fields: dict[str, Any]) -> None:
    """Write a JSON object with the name of an event on standard output."""
    click.echo(orjson.dumps({"event": event, **fields}).decode())


def _totals(moves: Sequence[QueueMove]) -> dict[str, int]:
    return {
        "moved": sum(move.moved for move in moves),
        "moved_bytes": sum(move.moved_bytes for move in moves),
        "left": sum(move.left or 0 for move in moves),
        "queue_count": len(moves),
        "done": sum(move.is_done for move in moves),
    }


def _row(move: QueueMove, rate: float) -> dict[str, Any]:
    return {
        "vhost": move.vhost,
        "queue": move.name,
        "left": move.left,
        "moved": move.moved,
        "rate": round(rate, 1),
        "state": move.state.value,
        "note": move.note,
    }
