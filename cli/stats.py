"""The command `amqp-server stats`: statistics of each queue."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.admin.views.values import time_text
from amqp_server.control.client import ControlError, UnreachableError, ask
from amqp_server.control.protocol import ErrorKind
from amqp_server.maintenance.stored_queues import StoredQueues, load_stored_queues
from amqp_server.maintenance.stored_stats import stored_stats
from cli.command_failure import CommandFailedError
from cli.control import check_utf8
from cli.data_directory import HELP, data_directory_option, refusals
from cli.display import shown, shown_bytes, shown_field
from cli.exit_codes import EXIT_FAILED, EXIT_REFUSED
from cli.units import CountType
from metadata.reading_lock import is_served

PAGE_QUEUES: Final = 500
LIMIT_DEFAULT: Final = 100
SORTS: Final = ("name", "ready", "unacked", "disk_bytes", "segments")
COLUMNS: Final = (
    ("READY", "ready", 10),
    ("UNACKED", "unacked", 9),
    ("FLOOR", "checkpointed_floor", 10),
    ("END", "log_end_offset", 10),
    ("SEGMENTS", "segments", 9),
    ("DISK", "disk_bytes", 11),
)

Row = dict[str, Any]


@click.command(
    context_settings=HELP,
    epilog=(
        "Examples: amqp-server stats --sort ready --limit 10; amqp-server stats --queue orders; "
        "amqp-server stats --json. Exit codes: 0 shown, 2 refused or not found, 1 anything else."
    ),
)
@click.option("--queue", callback=check_utf8, help="Only this queue, with all its statistics.")
@click.option(
    "--vhost",
    callback=check_utf8,
    help="Only queues of this virtual host.  [default: all; / with --queue]",
)
@click.option("--match", callback=check_utf8, help="Only queues whose names contain this text.")
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True, help="Order.")
@click.option(
    "--limit",
    type=CountType(min=1),
    help="Maximum number of queues.  [default: 100; all with --json]",
)
@click.option(
    "--watch",
    "watch_seconds",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Show the statistics again at this interval.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line and queue.")
@data_directory_option
def stats(
    storage_path: Path,
    queue: str | None,
    vhost: str | None,
    match: str | None,
    sort: str,
    limit: int | None,
    watch_seconds: float | None,
    *,
    as_json: bool,
) -> int:
    """Show statistics of each queue: messages, offsets, segments, disk, memory.

    Asks the running server. Without one, this reads the files, which have fewer numbers.
    """
    while True:
        with refusals():
            rows = _rows(storage_path, vhost, queue, match)
            if sort != "name":
                # Descending numbers, unknown ones last.
                rows = iter(sorted(rows, key=lambda row: -(row.get(sort) or 0)))
            _write(rows, limit, is_one=queue is not None, as_json=as_json)
        if watch_seconds is None:
            return 0
        time.sleep(watch_seconds)
        if not as_json:
            click.echo()


def _rows(
    storage_path: Path, vhost: str | None, queue: str | None, match: str | None
) -> Iterator[Row]:
    if queue is not None and vhost is None:
        vhost = "/"
    try:
        first = _request(storage_path, vhost, queue, "")
    except UnreachableError:
        rows = _stored(storage_path, vhost, queue)
    else:
        rows = _pages(storage_path, vhost, queue, first)
    if match is not None:
        rows = (row for row in rows if match in row.get("name", ""))
    if queue is not None:
        found = list(rows)
        if not found:
            raise CommandFailedError(f"no queue '{shown(queue)}' in vhost '{shown(vhost or '')}'")
        return iter(found)
    return rows


def _pages(
    storage_path: Path, vhost: str | None, queue: str | None, page: dict[str, Any]
) -> Iterator[Row]:
    while True:
        yield from page["queues"]
        if not page["next"]:
            return
        page = _request(storage_path, vhost, queue, page["next"])


def _request(
    storage_path: Path, vhost: str | None, queue: str | None, after: str
) -> dict[str, Any]:
    try:
        page: dict[str, Any] = ask(
            storage_path,
            "queues.stats",
            vhost=vhost or "",
            queue=queue or "",
            after=after,
            limit=PAGE_QUEUES,
        )
    except ControlError as error:
        code = EXIT_REFUSED if error.kind is ErrorKind.NOT_FOUND else EXIT_FAILED
        raise CommandFailedError(error.reason, code) from error
    return page


def _stored(storage_path: Path, vhost: str | None, queue: str | None) -> Iterator[Row]:
    stored = load_stored_queues(storage_path)
    if is_served(storage_path):
        raise CommandFailedError(f"the server on {storage_path} cannot be asked: no control socket")
    chosen = [
        each
        for each in stored.queues
        if (vhost is None or each.vhost == vhost)
        and (queue is None or each.name == queue)
        and not each.is_delay_queue
    ]
    if queue is None and vhost is not None and not _has_vhost(stored, vhost):
        raise CommandFailedError(f"no vhost '{shown(vhost)}' in {storage_path}")
    return stored_stats(stored, chosen)


def _has_vhost(stored: StoredQueues, vhost: str) -> bool:
    # A virtual host with an unreadable document may have readable queues.
    names = {each.vhost for each in stored.report.documents}
    return vhost in names or any(each.vhost == vhost for each in stored.queues)


def _write(rows: Iterator[Row], limit: int | None, *, is_one: bool, as_json: bool) -> None:
    if as_json:
        for row in itertools.islice(rows, limit):
            click.echo(orjson.dumps(row))
        return
    if is_one:
        for name, value in next(rows).items():
            click.echo(f"{name.replace('_', ' '):<28}{_value(name, value)}")
        return
    click.echo("".join(f"{title:>{width}}" for title, _, width in COLUMNS) + "  STATE     QUEUE")
    for row in itertools.islice(rows, limit or LIMIT_DEFAULT):
        cells = (f"{_value(field, row.get(field)):>{width}}" for _, field, width in COLUMNS)
        name = f"{shown_field(row, 'name')} in {shown_field(row, 'vhost')}"
        click.echo(f"{''.join(cells)}  {row['state']:<8}  {name}")
    more = sum(1 for _ in rows)
    if more:
        click.echo(f"... and {more} more: --limit, --match, --sort", err=True)


def _value(field: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return orjson.dumps(value).decode()
    if field.endswith("_timestamp_ns") and isinstance(value, int):
        return time_text(value) or str(value)
    if field.endswith("_bytes") and isinstance(value, int):
        return shown_bytes(value)
    return shown(str(value))
