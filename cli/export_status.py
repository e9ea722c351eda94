"""The command `amqp-server export status`: what an output has, and how far behind it is."""

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click
import orjson

from appendlog.spark.errors import OutputError, QueueNotFoundError
from appendlog.spark.exporting.checking.output_status import (
    Lag,
    OutputStatus,
    lag_of,
    output_status,
)
from appendlog.spark.objects.store_options import StoreOptions
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.queues import find_queue
from cli.data_directory import HELP, as_text, shown, shown_bytes
from cli.export_output import open_output, output_options, output_refusals, shown_ranges
from cli.store_options import reach_stores

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
    help="Data directory: also tell how far the output is behind.",
)
def status(
    out: str,
    queue: str | None,
    storage_path: Path | None,
    store_options: tuple[str, ...],
    *,
    as_json: bool,
) -> int:
    """Show what an output of files has of each queue.

    Read from the last manifest of each: however much there is, it takes no longer.
    """
    with output_refusals():
        reached_by = reach_stores(store_options, out=out, storage_path=storage_path)
        _, queues = open_output(out, queue, reached_by)
        rows = [_row(output_status(each), storage_path, reached_by) for each in queues]
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
    last, total = status.last, status.last.total
    lag, reason = None, None
    if storage_path is not None:
        lag, reason = _lag(status, storage_path, reached_by)
    return {
        "queue": as_text(last.queue),
        "vhost": as_text(last.vhost),
        "incarnation": str(last.incarnation),
        "covered": total.covered,
        "rows": total.rows,
        "size_bytes": total.bytes,
        "files": total.files,
        "exports": total.exports,
        "manifests": last.number + 1,
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
    """Return how far it is behind, or why that cannot be said: its queue is gone."""
    try:
        log = find_queue(storage_path, status.last.vhost, status.last.queue, reached_by)
        with closing(open_reader(log)) as reader:
            first, end = reader.log_start_offset, reader.log_end_offset
            return lag_of(status.last, log, first, end), None
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
