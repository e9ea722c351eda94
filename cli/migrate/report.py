"""Report at the end of a migration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from cli.display import rough_size, shown
from cli.exit_codes import EXIT_DONE, EXIT_FAILED
from cli.migrate.progress import publishers_text, write_event
from cli.migrate.queue_move import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.migrate.differences import Difference
    from cli.migrate.plan import Plan
    from cli.migrate.queue_move import QueueMove

LINES_MAX = 50
"""Queues that are listed; their number is told."""


@dataclass(frozen=True, slots=True)
class Left:
    """A queue of the source that still has messages, or may have.

    Attributes:
        vhost: Its virtual host.
        queue: Its name.
        messages: Messages that are ready; None if the source did not say.
        unacked: Messages that its consumers hold.
        reason: Why they are there.
    """

    vhost: str
    queue: str
    messages: int | None
    unacked: int
    reason: str

    @property
    def line(self) -> str:
        """The queue in a line."""
        count = (
            "an unknown number of messages"
            if self.messages is None
            else counted(self.messages, "message")
        )
        held = f", {self.unacked} held by consumers" if self.unacked else ""
        reason = f" ({shown(self.reason)})" if self.reason else ""
        name, vhost = shown(self.queue), shown(self.vhost)
        return f"queue '{name}' in vhost '{vhost}': {count}{held}{reason}"

    @property
    def as_json(self) -> dict[str, Any]:
        """The queue as JSON values."""
        return {
            "vhost": self.vhost,
            "queue": self.queue,
            "messages": self.messages,
            "unacked": self.unacked,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The result.

    Attributes:
        moves: All moves.
        left: What is left at the source.
        expected: What differs by design.
        differs: Definitions that are not here, or otherwise; None if they were not compared.
        publishers: Connections of the source that have published; None: not known.
        seconds: How long it took.
        not_compared: Why definitions were not compared.
    """

    moves: Sequence[QueueMove]
    left: Sequence[Left]
    expected: Sequence[Difference]
    differs: Sequence[Difference] | None
    publishers: Sequence[str] | None
    seconds: float
    not_compared: str = ""

    @property
    def exit_code(self) -> int:
        """0 if everything is here."""
        return EXIT_FAILED if self.left or self.differs is None or self.differs else EXIT_DONE

    @property
    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "moved": sum(move.moved for move in self.moves),
            "moved_bytes": sum(move.moved_bytes for move in self.moves),
            "seconds": round(self.seconds, 3),
            "queues": [
                {
                    "vhost": move.vhost,
                    "queue": move.name,
                    "moved": move.moved,
                    "seconds": round(move.seconds, 3),
                    "state": move.state,
                }
                for move in self.moves
            ],
            "left": [each.as_json for each in self.left],
            "differs": None if self.differs is None else [each.as_json for each in self.differs],
            "not_compared": self.not_compared,
            "by_design": [each.as_json for each in self.expected],
            "publishers": None if self.publishers is None else list(self.publishers),
        }

    def show(self, *, as_json: bool) -> None:
        """Write it to standard output."""
        if as_json:
            write_event("report", self.as_json)
            return
        moved = sum(move.moved for move in self.moves)
        size = rough_size(sum(move.moved_bytes for move in self.moves))
        queues = sum(bool(move.moved) for move in self.moves)
        click.echo(
            f"moved {counted(moved, 'message')} ({size}) of {counted(queues, 'queue')} "
            f"in {self.seconds:.0f} s"
        )
        show_differences(self.expected)
        if self.differs is None:
            click.echo(f"definitions: not compared: {shown(self.not_compared)}")
        elif self.differs:
            click.echo("definitions are not the same:")
            for each in self.differs:
                click.echo(f"  {shown(each.line)}")
        else:
            click.echo("definitions: all of the source's are here")
        if self.left:
            messages = sum(each.messages or 0 for each in self.left)
            total = f"{counted(messages, 'message')} of {counted(len(self.left), 'queue')}"
            click.echo(f"left at the source: {total}")
            for left in self.left[:LINES_MAX]:
                click.echo(f"  {left.line}")
        else:
            click.echo("left at the source: nothing")
        if self.publishers is not None:
            click.echo(publishers_text(self.publishers))
        if self.left or self.publishers:
            click.echo("run the command again to go on")
        elif self.publishers is None:
            click.echo("who publishes, and what consumers hold, is not known without the HTTP API")
        else:
            click.echo("it is safe to switch the source off")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 queue`, `2 queues`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def show_differences(found: Sequence[Difference]) -> None:
    """Write what differs by design."""
    if found:
        click.echo("what differs:")
        for each in found:
            click.echo(f"  {shown(each.line)}")


def left_at_source(plan: Plan, *, is_checked: bool) -> list[Left]:
    """Return what is left at the source.

    Args:
        plan: The plan, with the newest counts of the source.
        is_checked: Whether these counts are of the end; else they are those of the beginning.
    """
    found: list[Left] = []
    for move in plan.moves:
        queue = plan.source_queues.get((move.vhost, move.name))
        unacked = queue.unacked if queue is not None and is_checked else 0
        if move.is_stream:
            if move.state is not State.COPIED:
                found.append(Left(move.vhost, move.name, move.left, 0, move.note or move.state))
        elif move.left != 0 or unacked:
            reason = move.note or ("" if move.left else "its consumers hold them")
            found.append(Left(move.vhost, move.name, move.left, unacked, reason))
    for (vhost, name), reason in sorted(plan.stays.items()):
        queue = plan.source_queues.get((vhost, name))
        if queue is None:
            found.append(Left(vhost, name, None, 0, reason))
        elif queue.messages:
            ready = queue.messages - queue.unacked
            found.append(Left(vhost, name, ready, queue.unacked, reason))
    return found
