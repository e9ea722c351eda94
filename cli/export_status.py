"""The command `amqp-server export status`: the contents of an output, and how far behind it is."""

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click
import orjson

from appendlog.spark.errors import OutputError, QueueNotFoundError
from appendlog.spark.exporting.checking.output_queues import exported_queues
from appendlog.spark.exporting.checking.output_status import (
    Lag,
    OutputStatus,
    lag_of,
    output_status,
    table_status,
)
from appendlog.spark.exporting.stores.opening import open_store
from appendlog.spark.exporting.tables.table_kinds import open_table, queues_in
from appendlog.spark.objects.store_options import StoreOptions
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.queues import find_queue
from cli.data_directory import HELP
from cli.display import shown, shown_bytes
from cli.export_output import output_options, output_refusals, shown_ranges
from cli.store_options import reach_stores
from metadata.name_texts import escaped_text

COLUMNS: Final = (
    ("ROWS", 12),
    ("SIZE", 11),
    ("FILES", 8),
    ("EXPORTS", 9),
    ("BEHIND", 9),
)

Row = dict[str, Any]


@click.command(
    context_settings=HELP,
    epilog=(
        "Example: amqp-server export status --out ./lake --storage-path ./data. "
        "Exit codes: 0 shown, 2 refused, 1 anything else."
    ),
)
@output_options
@click.option(
    "--storage-path",
    type=click.Path(path_type=Path),
    help="Data directory, to show also how far the output is behind.",
)
def status(
    out: str,
    queue: str | None,
    storage_path: Path | None,
    store_options: tuple[str, ...],
    *,
    as_json: bool,
) -> int:
    """Show the contents of an output, for each queue.

    Reads the last manifest of each queue, or the log of a table; reads no rows.
    """
    with output_refusals():
        reached_by = reach_stores(store_options, out=out, storage_path=storage_path)
        store = open_store(out, reached_by.as_dict())
        if table := open_table(store):
            statuses = table_status(table, queues_in(table, queue))
        else:
            statuses = [output_status(each) for each in exported_queues(store, queue)]
        rows = [_row(each, storage_path, reached_by) for each in statuses]
    if as_json:
        for row in rows:
            click.echo(orjson.dumps(row).decode())
        return 0
    titles = "".join(f"{title:>{width}}" for title, width in COLUMNS)
    click.echo(f"{titles}  LAST EXPORT           OFFSETS")
    for row in rows:
        _write(row)
    return 0


def _row(status: OutputStatus, storage_path: Path | None, reached_by: StoreOptions) -> Row:
    total = status.total
    lag = None
    reason = None
    if storage_path is not None:
        lag, reason = _lag(status, storage_path, reached_by)
    return {
        "queue": escaped_text(status.queue),
        "vhost": escaped_text(status.vhost),
        "incarnation": status.incarnation,
        "covered": total.covered,
        "rows": total.rows,
        "size_bytes": total.bytes,
        "files": total.files,
        "exports": total.exports,
        "manifests": status.manifests,
        "missing": total.missing,
        "corrupt": total.corrupt,
        "excluded": total.excluded,
        "last_export": total.last_export,
        "last_end": total.covered[-1][1] if total.covered else None,
        "unfinished_files": status.unfinished_files,
        "unfinished_bytes": status.unfinished_bytes,
        "log": lag and asdict(lag),
        "no_log": reason,
    }


def _lag(
    status: OutputStatus, storage_path: Path, reached_by: StoreOptions
) -> tuple[Lag | None, str | None]:
    """Return how far the output is behind, or the reason why that is unknown."""
    try:
        log = find_queue(storage_path, status.vhost, status.queue, reached_by)
        with closing(open_reader(log)) as reader:
            first, end = reader.log_start_offset, reader.log_end_offset
            return lag_of(status, log, first, end), None
    except (QueueNotFoundError, OutputError) as error:
        return None, str(error)


def _write(row: Row) -> None:
    log = row["log"]
    cells = (
        row["rows"],
        shown_bytes(row["size_bytes"]),
        row["files"],
        row["exports"],
        "-" if log is None else log["offsets"],
    )
    text = "".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True))
    when = (row["last_export"] or "-")[:19]
    ranges = shown_ranges(row["covered"])
    click.echo(f"{text}  {when:<20}  {ranges} of {shown(row['queue'])}")
    for count, what in (
        (row["missing"], "the log did not have"),
        (row["corrupt"], "were in damaged parts of the log"),
        (row["excluded"], "were not asked for"),
        (log["lost"] if log else 0, "were lost: the log let them go before they were exported"),
    ):
        if count:
            click.echo(f"  {count} offsets {what}")
    if row["no_log"]:
        click.echo(f"  {shown(row['no_log'])}")
    if row["unfinished_files"]:
        click.echo(
            f"  {row['unfinished_files']} files ({shown_bytes(row['unfinished_bytes'])}) of runs "
            "that are not committed: one is running, or vacuum removes them"
        )
