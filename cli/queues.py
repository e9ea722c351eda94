"""The command `amqp-server queues`: pauses queues, shows who holds messages, moves them."""

from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.admin.offset_text import HOW_WRITTEN
from cli.control import EXIT_CODES, ask_server, check_utf8, storage_path_option
from cli.display import shown
from cli.position_types import FilterType, OffsetTextType
from cli.table import write_table

_HELP: Final = {"help_option_names": ["-h", "--help"]}
_PAGE_ROWS: Final = 1000
_REASONS: Final = {
    "no_death": "have no death in their headers",
    "no_queue": "came from a queue that is gone",
    "refused": "were refused by a full queue",
}

vhost_option = click.option(
    "--vhost", default="/", show_default=True, callback=check_utf8, help="Virtual host."
)


@click.group(
    invoke_without_command=True,
    context_settings=_HELP,
    epilog=(
        "Examples: amqp-server queues pause orders; amqp-server queues unacked orders; "
        f"amqp-server queues return-dead-letters dead --dry-run. {EXIT_CODES}"
    ),
)
@click.pass_context
def queues(ctx: click.Context) -> None:
    """Pause queues of the running server, see who holds their messages, move and return them.

    The data directory identifies the server. `amqp-server stats` lists the queues.
    """
    if ctx.invoked_subcommand is None:
        actions = "pause, resume, unacked, move or return-dead-letters"
        raise click.UsageError(f"write what to do: {actions}")


@queues.command(context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("name", callback=check_utf8)
@vhost_option
@storage_path_option
def pause(name: str, vhost: str, storage_path: Path) -> int:
    """Deliver nothing more from the queue or stream NAME; publishes go on.

    It is on the disk when this returns: a durable queue stays paused over a restart.
    """
    return _set_paused(storage_path, "queues.pause", vhost, name, "paused")


@queues.command(context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("name", callback=check_utf8)
@vhost_option
@storage_path_option
def resume(name: str, vhost: str, storage_path: Path) -> int:
    """Deliver from the queue or stream NAME again."""
    return _set_paused(storage_path, "queues.resume", vhost, name, "running")


def _set_paused(storage_path: Path, command: str, vhost: str, name: str, state: str) -> int:
    done = ask_server(storage_path, command, vhost=vhost, name=name)
    is_now = "is" if done["changed"] else "was already"
    click.echo(f"queue '{shown(name)}' {is_now} {state}")
    return 0


@queues.command(context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("name", callback=check_utf8)
@vhost_option
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
@storage_path_option
def unacked(name: str, vhost: str, storage_path: Path, *, as_json: bool) -> int:
    """Show which channel and consumer hold which messages of the queue NAME for how long.

    A line is a run of messages with consecutive offsets. No consumer: basic.get.
    """
    rows: list[dict[str, Any]] = []
    after = ""
    while True:
        place = {"vhost": vhost, "queue": name, "after": after, "limit": _PAGE_ROWS}
        page = ask_server(storage_path, "queues.unacked", **place)
        if as_json:
            for row in page["rows"]:
                click.echo(orjson.dumps(row).decode())
        else:
            rows += page["rows"]
        after = page["next"]
        if not after:
            break
    if not as_json:
        _show_unacked(rows)
    return 0


def _show_unacked(rows: list[dict[str, Any]]) -> None:
    header = ("SECONDS", "MESSAGES", "FROM", "TO", "CHANNEL", "CONSUMER")
    cells = [
        (
            f"{row['unacked_for_seconds']:.1f}",
            str(row["count"]),
            str(row["first_offset"]),
            str(row["end_offset"] - 1),
            shown(row.get("channel_name", "")),
            shown(row.get("consumer_tag", "")) or "-",
        )
        for row in rows
    ]
    write_table(header, cells, right=("SECONDS", "MESSAGES", "FROM", "TO"))


@queues.command(
    context_settings=_HELP,
    epilog=(
        f"A position: {HOW_WRITTEN}. Example: amqp-server queues move orders --to orders-later "
        f"--limit 1000. {EXIT_CODES}"
    ),
)
@click.argument("name", callback=check_utf8)
@vhost_option
@click.option(
    "--to", metavar="QUEUE", required=True, callback=check_utf8, help="Queue that gets them."
)
@click.option(
    "--from",
    "start",
    type=OffsetTextType(),
    default="first",
    show_default=True,
    help="First position.",
)
@click.option(
    "--until", type=OffsetTextType(), help="End position, exclusive.  [default: the present end]"
)
@click.option(
    "--filter", "filters", type=FilterType(), multiple=True, help="Only messages with this header."
)
@click.option(
    "--limit", type=click.IntRange(min=1), help="Most messages that are moved.  [default: all]"
)
@click.option("--dry-run", is_flag=True, help="Only count the messages.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")
@storage_path_option
def move(
    name: str,
    vhost: str,
    storage_path: Path,
    to: str,
    start: str,
    until: str | None,
    filters: tuple[str, ...],
    limit: int | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Move the ready messages of the queue NAME into another queue.

    They get the headers x-moved-from, x-moved-offset and x-moved-at, and are on the disk when this
    returns. Messages that consumers hold stay with them. When this is interrupted, what was not
    moved is where it was.
    """
    done = ask_server(
        storage_path,
        "queues.move",
        vhost=vhost,
        queue=name,
        to=to,
        start=start,
        until=until or "",
        filters=list(filters),
        limit=limit or 0,
        dry_run=dry_run,
    )
    if as_json:
        click.echo(orjson.dumps(done).decode())
        return 0
    verb = "would move" if dry_run else "moved"
    click.echo(f"{verb} {done['moved']} messages, {done['moved_bytes']} bytes, to {shown(to)}")
    return 0


@queues.command(
    "return-dead-letters",
    context_settings=_HELP,
    epilog=(
        f"A position: {HOW_WRITTEN}. Example: amqp-server queues return-dead-letters dead "
        f"--from 1200 --until 1201. {EXIT_CODES}"
    ),
)
@click.argument("name", callback=check_utf8)
@vhost_option
@click.option(
    "--from",
    "start",
    type=OffsetTextType(),
    default="first",
    show_default=True,
    help="First position.",
)
@click.option(
    "--until", type=OffsetTextType(), help="End position, exclusive.  [default: the present end]"
)
@click.option(
    "--filter", "filters", type=FilterType(), multiple=True, help="Only messages with this header."
)
@click.option("--dry-run", is_flag=True, help="Only count the messages.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")
@storage_path_option
def return_dead_letters(
    name: str,
    vhost: str,
    storage_path: Path,
    start: str,
    until: str | None,
    filters: tuple[str, ...],
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Send the dead letters in the queue NAME back to the queues that they came from.

    They get the headers x-returned-from, x-returned-offset and x-returned-at, and are on the disk
    when this returns. Messages that consumers hold stay with them.
    """
    done = ask_server(
        storage_path,
        "queues.return_dead_letters",
        vhost=vhost,
        queue=name,
        start=start,
        until=until or "",
        filters=list(filters),
        dry_run=dry_run,
    )
    if as_json:
        click.echo(orjson.dumps(done).decode())
        return 0
    verb = "would return" if dry_run else "returned"
    click.echo(f"{verb} {done['returned']} messages, {done['returned_bytes']} bytes")
    for each in done["queues"]:
        click.echo(f"  {each['returned']} to {shown(each.get('queue', ''))}")
    for reason, count in done["left"].items():
        click.echo(f"  {count} stay: they {_REASONS.get(reason, reason)}")
    return 0
