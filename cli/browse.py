"""The command `amqp-server browse`: shows the messages of a queue without consuming them."""

import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.admin.offset_text import HOW_WRITTEN, parse_offset_text
from amqp_server.broker.header_filter import parse_filter
from amqp_server.broker.message_states import MessageState
from amqp_server.control.client import ControlError, UnreachableError
from amqp_server.control.protocol import ErrorKind
from amqp_server.control.queue_client import QueueClient
from amqp_server.maintenance.stored_browse import stored_browse
from amqp_server.maintenance.stored_queues import load_stored_queues
from cli.command_failure import CommandFailedError
from cli.control import check_utf8
from cli.data_directory import HELP, data_directory_option, refusals
from cli.display import shown
from cli.exit_codes import EXIT_FAILED, EXIT_REFUSED
from cli.position_types import FilterType, OffsetTextType
from cli.units import CountType
from cli.verify import find_queue

LIMIT_DEFAULT: Final = 20
PREVIEW_BYTES: Final = 60
CELL_CHARACTERS_MAX: Final = 40
ALIGNED_ROWS: Final = 1000
"""Number of rows of a table that are aligned together."""
RETAINED: Final = "retained"
"""Other name for settled messages that are still in the log."""

Row = dict[str, Any]


@click.command(
    context_settings=HELP,
    epilog=(
        f"A position: {HOW_WRITTEN}. Examples: amqp-server browse --queue orders --from -20; "
        "amqp-server browse --queue orders --from 1h --state retained --filter customer=7 --json. "
        "Exit codes: 0 shown, 2 refused or not found, 1 anything else."
    ),
)
@click.option("--queue", required=True, callback=check_utf8, help="Name of the queue, of any type.")
@click.option(
    "--vhost",
    default="/",
    show_default=True,
    callback=check_utf8,
    help="Virtual host of the queue.",
)
@click.option(
    "--from",
    "start",
    type=OffsetTextType(),
    default="first",
    show_default=True,
    help="First position.",
)
@click.option("--until", type=OffsetTextType(), help="End position, exclusive.  [default: the end]")
@click.option(
    "--limit",
    type=CountType(min=1),
    default=LIMIT_DEFAULT,
    show_default=True,
    help="Maximum number of messages.",
)
@click.option(
    "--state",
    type=click.Choice((*(each.value for each in MessageState), RETAINED)),
    help="Only messages in this state; retained means settled.",
)
@click.option(
    "--filter", "filters", type=FilterType(), multiple=True, help="Only messages with this header."
)
@click.option(
    "--body-bytes",
    type=CountType(min=0),
    help=f"Number of bytes shown of each body.  [default: {PREVIEW_BYTES}; all with --json]",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line and message.")
@data_directory_option
def browse(
    storage_path: Path,
    queue: str,
    vhost: str,
    start: str,
    until: str | None,
    limit: int,
    state: str | None,
    filters: tuple[str, ...],
    body_bytes: int | None,
    *,
    as_json: bool,
) -> int:
    """Show the messages of a queue: ready, unacked, and settled ones that are still in the log.

    Consumes nothing and changes nothing. Asks the running server. Without one, this reads the
    files, and the last checkpoint determines which messages are settled.
    """
    if body_bytes is None and not as_json:
        body_bytes = PREVIEW_BYTES
    if state == RETAINED:
        state = MessageState.SETTLED
    query = _Query(storage_path, vhost, queue, start, until or "", state or "", filters, body_bytes)
    with refusals(), ExitStack() as open_files:
        rows = query.ask(limit)
        try:
            first = next(rows, None)
        except UnreachableError:
            rows = itertools.islice(query.read(open_files), limit)
            first = next(rows, None)
            click.echo("no server is running: states are those of the last checkpoint", err=True)
        found = rows if first is None else itertools.chain((first,), rows)
        _write_json(found) if as_json else _write_table(found)
    return 0


@dataclass(frozen=True, slots=True)
class _Query:
    """Arguments of one call."""

    storage_path: Path
    vhost: str
    queue: str
    start: str
    until: str
    state: str
    filters: Sequence[str]
    body_bytes: int | None

    def ask(self, limit: int) -> Iterator[Row]:
        """Yield the rows that the running server returns."""
        try:
            yield from QueueClient(self.storage_path).browse(
                self.queue,
                vhost=self.vhost,
                start=self.start,
                until=self.until,
                state=self.state,
                filters=self.filters,
                limit=limit,
                body_bytes_max=self.body_bytes,
            )
        except ControlError as error:
            code = EXIT_REFUSED if error.kind is ErrorKind.NOT_FOUND else EXIT_FAILED
            raise CommandFailedError(error.reason, code) from error

    def read(self, open_files: ExitStack) -> Iterator[Row]:
        """Yield the rows from the files; they stay open until the caller closes them."""
        stored = load_stored_queues(self.storage_path)
        if stored.is_live:
            reason = f"the server on {self.storage_path} cannot be asked: no control socket"
            raise CommandFailedError(reason)
        found = find_queue(stored, self.vhost, self.queue)
        log = open_files.enter_context(stored_browse(self.storage_path, found))
        now_ns = time.time_ns()
        start = log.offset_of(parse_offset_text(self.start, now_ns))
        end = log.offset_of(parse_offset_text(self.until or "next", now_ns))
        filters = [parse_filter(each) for each in self.filters]
        yield from log.rows(start, end, self.state, filters, self.body_bytes)


def _write_json(rows: Iterator[Row]) -> None:
    for row in rows:
        click.echo(orjson.dumps(row))


def _write_table(rows: Iterator[Row]) -> None:
    """Write rows in columns; the last column, the body, is not truncated again."""
    is_first = True
    while (chosen := list(itertools.islice(rows, ALIGNED_ROWS))) or is_first:
        cells = [_cells(row) for row in chosen]
        if is_first:
            cells.insert(
                0, ["OFFSET", "TIME", "STATE", "EXCHANGE", "KEY", "HEADERS", "BYTES", "BODY"]
            )
            is_first = False
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            offset, *texts, size, body = row
            columns = [text.ljust(width) for text, width in zip(texts, widths[1:-2], strict=True)]
            line = [offset.rjust(widths[0]), *columns, size.rjust(widths[-2]), body]
            click.echo("  ".join(line).rstrip())
        if sys.stdout is not None:  # None: standard output was closed before the start
            sys.stdout.flush()


def _cells(row: Row) -> list[str]:
    time_text = row["timestamp"]
    headers = row.get("properties", {}).get("headers") or {}
    pairs = [f"{name}={_header_text(value)}" for name, value in headers.items()]
    return [
        str(row["offset"]),
        "-" if time_text is None else time_text[:23].replace("T", " "),
        row["state"],
        _cell(row, "exchange"),
        _cell(row, "routing_key"),
        _cut(shown(" ".join(pairs))) or "-",
        str(row.get("body_bytes", "-")),
        _body(row),
    ]


def _header_text(value: object) -> str:
    """Return a value without its JSON wrapper, which states its kind; see `table_json`."""
    if isinstance(value, dict):
        value = value.get("value", value)
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _cell(row: Row, name: str) -> str:
    return _cut(shown(row.get(name) or row.get(f"{name}_base64") or "")) or "-"


def _body(row: Row) -> str:
    if "error" in row:
        return shown(str(row["error"]))
    is_text = "body" in row
    text = shown(row["body"]) if is_text else f"base64:{row['body_base64']}"
    return f"{text}..." if row["is_body_cut"] else text


def _cut(text: str) -> str:
    return text if len(text) <= CELL_CHARACTERS_MAX else f"{text[: CELL_CHARACTERS_MAX - 3]}..."
