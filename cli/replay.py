"""The command `amqp-server replay`: publishes settled messages again."""

import sys
import time
from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.admin.offset_text import HOW_WRITTEN
from amqp_server.control.client import ControlError, UnreachableError
from amqp_server.control.protocol import ErrorKind
from amqp_server.control.queue_client import QueueClient
from cli.control import RequestFailedError, check_utf8, storage_path_option
from cli.display import shown
from cli.exit_codes import EXIT_FAILED, EXIT_REFUSED
from cli.position_types import FilterType, OffsetTextType

SHOW_EVERY_SECONDS: Final = 0.5
REFUSED: Final = frozenset((ErrorKind.NOT_FOUND, ErrorKind.INVALID_ARGUMENT))

Progress = dict[str, Any]


def _check_target(ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    """Refuse an empty name: an unset shell variable must not select the same queue.

    Raises:
        click.BadParameter: The name is empty, or not UTF-8.
    """
    if name == "":
        raise click.BadParameter("'' is no name of a queue; without --to it is the same queue")
    return check_utf8(ctx, param, name)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        f"A position: {HOW_WRITTEN}. Examples: "
        "amqp-server replay --queue orders --from 1h --dry-run; "
        "amqp-server replay --queue orders --from 1200 --until 1300 --to orders-again. "
        "Exit codes: 0 done, 1 stopped or refused, 2 could not begin: no server, "
        "queue or position."
    ),
)
@click.option(
    "--queue", required=True, callback=check_utf8, help="Queue that the messages were in."
)
@click.option(
    "--vhost",
    default="/",
    show_default=True,
    callback=check_utf8,
    help="Virtual host of both queues.",
)
@click.option("--from", "start", type=OffsetTextType(), required=True, help="First position.")
@click.option(
    "--until", type=OffsetTextType(), help="End position, exclusive.  [default: the present end]"
)
@click.option(
    "--to",
    metavar="QUEUE",
    callback=_check_target,
    help="Queue that gets the messages.  [default: the same queue]",
)
@click.option(
    "--filter", "filters", type=FilterType(), multiple=True, help="Only messages with this header."
)
@click.option(
    "--include",
    type=click.Choice(("settled", "all")),
    default="settled",
    show_default=True,
    help="Settled messages, or also copies of the others. Of a stream: all.",
)
@click.option("--dry-run", is_flag=True, help="Only count the messages.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object at the end.")
@storage_path_option
def replay(
    storage_path: Path,
    queue: str,
    vhost: str,
    start: str,
    until: str | None,
    to: str | None,
    filters: tuple[str, ...],
    include: str,
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Publish settled messages that are still in the log again, as new messages of a queue.

    They keep properties, exchange and routing key; the headers x-replayed-from, x-replayed-offset
    and x-replayed-at state their origin. The messages are on the disk when the command ends. After
    an interruption it prints how far it came; later messages may have been replayed already.
    """
    shower = _Shower(is_shown=sys.stderr.isatty() and not as_json)
    try:
        done = QueueClient(storage_path).replay(
            queue,
            vhost=vhost,
            start=start,
            until=until or "",
            to=to or "",
            filters=filters,
            includes_all=include == "all",
            is_dry_run=dry_run,
            on_progress=shower.take,
        )
    except KeyboardInterrupt:
        raise RequestFailedError(f"interrupted; {shower.how_far}", EXIT_FAILED) from None
    except UnreachableError as error:
        code = EXIT_REFUSED if shower.last is None else EXIT_FAILED
        reason = str(error) if shower.last is None else f"{error}; {shower.how_far}"
        raise RequestFailedError(reason, code) from error
    except ControlError as error:
        code = EXIT_REFUSED if error.kind in REFUSED else EXIT_FAILED
        raise RequestFailedError(error.reason, code) from error
    finally:
        shower.clear()
    if done["start"] == done["log_start_offset"] > 0:
        kept = f"the oldest message in the log has offset {done['start']}, older ones are gone"
        click.echo(kept, err=True)
    click.echo(orjson.dumps(done).decode() if as_json else _summary(done, queue, to or queue))
    return 0


class _Shower:
    """Stores the last progress, and shows it on a terminal."""

    def __init__(self, *, is_shown: bool) -> None:
        self.last: Progress | None = None
        self._is_shown = is_shown
        self._shown_seconds = 0.0

    @property
    def how_far(self) -> str:
        """Text with the position at which to continue."""
        if self.last is None:
            return "no progress is known: run the command again from the start"
        return (
            f"{self.last['replayed']} messages below offset {self.last['next']} were replayed, "
            f"continue with --from {self.last['next']}"
        )

    def take(self, progress: Progress) -> None:
        """Store progress, and show it."""
        self.last = progress
        if self._is_shown and time.monotonic() - self._shown_seconds >= SHOW_EVERY_SECONDS:
            self._shown_seconds = time.monotonic()
            waits = ", waits for an alarm to end" if progress["is_waiting"] else ""
            click.echo(
                f"\r\x1b[K{progress['replayed']} messages, offset {progress['next']} of "
                f"{progress['start']} to {progress['until']}{waits}",
                nl=False,
                err=True,
            )

    def clear(self) -> None:
        """Clear the line of the progress."""
        if self._shown_seconds:
            click.echo("\r\x1b[K", nl=False, err=True)


def _summary(done: Progress, queue: str, to: str) -> str:
    verb = "would replay" if done["is_dry_run"] else "replayed"
    text = (
        f"{verb} {done['replayed']} messages, {done['replayed_bytes']} bytes, from {shown(queue)} "
        f"to {shown(to)}"
    )
    if done["replayed"]:
        text += f": offsets {done['first_offset']} to {done['last_offset']}"
    if done["lost"]:
        text += (
            f"; {done['lost']} more are lost, because the log is damaged: "
            "`amqp-server verify` shows where"
        )
    return text
