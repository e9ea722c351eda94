"""The command `amqp-server inspect`: shows the contents of a data directory's files."""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.admin.views.values import text_json
from amqp_server.maintenance.log_view import (
    chunk_rows,
    end_view,
    index_rows,
    record_rows,
    segment_rows,
)
from amqp_server.maintenance.settlement_view import checkpoint_rows, redo_rows, round_rows
from amqp_server.maintenance.stored_queues import StoredQueues, load_stored_queues
from appendlog.segments.segment import SegmentName, segment_names
from cli.command_failure import CommandFailedError
from cli.control import check_utf8
from cli.data_directory import (
    HELP,
    data_directory_option,
    refusals,
)
from cli.display import shown
from cli.units import CountType
from cli.verify import find_queue
from metadata.name_texts import escaped_text

KINDS: Final = (
    "records",
    "chunks",
    "segments",
    "index",
    "end",
    "checkpoints",
    "rounds",
    "redo",
    "metadata",
)
OF_A_LOG: Final = frozenset({"records", "chunks", "segments", "index", "end"})
LIMIT_DEFAULT: Final = 100
BODY_PREVIEW_BYTES: Final = 60
CELL_CHARACTERS_MAX: Final = 100
EXIT_DAMAGE: Final = 4

Row = dict[str, Any]


@click.command(
    "inspect",
    context_settings=HELP,
    epilog=(
        "Examples: amqp-server inspect --queue orders --from 1000 --body; amqp-server inspect "
        "--queue orders --show chunks; amqp-server inspect data/offsets; amqp-server inspect "
        "--show metadata --json. Exit codes: 0 shown, 4 shown with damage in it, 2 refused or not "
        "found, 1 anything else."
    ),
)
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option(
    "--show",
    type=click.Choice(KINDS),
    help="Part to show.  [default: by the kind of PATH; records of a queue]",
)
@click.option("--queue", callback=check_utf8, help="Show the log of this queue.")
@click.option(
    "--vhost",
    default="/",
    show_default=True,
    callback=check_utf8,
    help="Virtual host of the queue.",
)
@click.option("--from", "start", type=CountType(min=0), help="First offset of the records.")
@click.option(
    "--limit",
    type=CountType(min=1),
    help="Maximum number of rows.  [default: 100; all with --json]",
)
@click.option("--body", is_flag=True, help="Show whole bodies, not only their first bytes.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
@data_directory_option
def inspect(
    path: Path | None,
    show: str | None,
    queue: str | None,
    vhost: str,
    start: int | None,
    limit: int | None,
    storage_path: Path,
    *,
    body: bool,
    as_json: bool,
) -> int:
    """Show the contents of a data directory's files; a server may be running.

    PATH is a segment, an index, an `end` file, the directory of a log, `offsets` or a checkpoint in
    it, `transactions`, `metadata` or a data directory; or --queue selects a log. Records are shown
    up to
    the durable end: the server is still writing after it.
    """
    with refusals():
        rows = _rows(path, show, queue, vhost, start, storage_path, is_whole=body or as_json)
        if not as_json:
            limit = limit or LIMIT_DEFAULT
        chosen = itertools.islice(rows, limit)
        is_damaged = (
            _write_json(chosen)
            if as_json
            else _write_table(chosen, None if body else CELL_CHARACTERS_MAX)
        )
        if not as_json and next(rows, None) is not None:
            click.echo(f"... more: --limit, {limit} shown", err=True)
    return EXIT_DAMAGE if is_damaged else 0


def _rows(
    path: Path | None,
    show: str | None,
    queue: str | None,
    vhost: str,
    start: int | None,
    storage_path: Path,
    *,
    is_whole: bool,
) -> Iterator[Row]:
    body_bytes_max = None if is_whole else BODY_PREVIEW_BYTES
    if queue is not None:
        if path is not None:
            raise click.UsageError("PATH and --queue exclude each other")
        found = find_queue(load_stored_queues(storage_path), vhost, queue)
        return _of_log(found.directory, show or "records", start, body_bytes_max)
    if path is None:
        if show in OF_A_LOG:
            raise click.UsageError(f"write a log, as --queue NAME or PATH, to show its {show}")
        path = storage_path
    if not path.exists():
        raise CommandFailedError(f"{path}: no such file or directory")
    return _of_path(path, show, start, body_bytes_max)


def _of_path(
    path: Path, show: str | None, start: int | None, body_bytes_max: int | None
) -> Iterator[Row]:
    if path.is_dir():
        if segment_names(entry.name for entry in path.iterdir()):
            return _of_log(path, show or "segments", start, body_bytes_max)
        if path.name == "offsets" or show == "checkpoints":
            directory = path if path.name == "offsets" else path / "offsets"
            stored = load_stored_queues(directory.parent)
            by_incarnation = {each.incarnation: each for each in stored.queues}
            return checkpoint_rows(directory, by_incarnation)
        if path.name == "transactions" or show == "redo":
            return redo_rows(path if path.name == "transactions" else path / "transactions")
        root = path.parent if path.name == "metadata" else path
        return _documents(load_stored_queues(root))
    if path.suffix == ".index":
        return index_rows(path)
    if path.name == "end":
        return iter([end_view(path.parent)])
    if path.name.startswith("checkpoint-"):
        return round_rows(path)
    if path.name.startswith("redo-"):
        return redo_rows(path.parent)
    names = segment_names([path.name])
    if not names:
        raise CommandFailedError(f"{path}: not a file that this command knows")
    return _of_segment(path, names[0], show, start, body_bytes_max)


def _of_segment(
    path: Path, name: SegmentName, show: str | None, start: int | None, body_bytes_max: int | None
) -> Iterator[Row]:
    if show == "chunks":
        return chunk_rows(path)
    if show == "index":
        return index_rows(path.with_name(name.index_name))
    later = [
        each.base_offset
        for each in segment_names(entry.name for entry in path.parent.iterdir())
        if each.base_offset > name.base_offset
    ]
    first = max(start or 0, name.base_offset)
    return record_rows(path.parent, first, min(later, default=None), body_bytes_max)


def _of_log(
    directory: Path, show: str, start: int | None, body_bytes_max: int | None
) -> Iterator[Row]:
    if show not in OF_A_LOG:
        raise click.UsageError(f"a log has no {show}")
    if not directory.is_dir():
        return iter(())
    if show == "records":
        return record_rows(directory, start, None, body_bytes_max)
    if show == "segments":
        return segment_rows(directory)
    if show == "end":
        return iter([end_view(directory)])
    return _of_all_segments(directory, show)


def _of_all_segments(directory: Path, show: str) -> Iterator[Row]:
    for name in segment_names(sorted(entry.name for entry in directory.iterdir())):
        file_name = name.file_name if show == "chunks" else name.index_name
        if show == "index" and not (directory / file_name).exists():
            continue
        try:
            for row in (chunk_rows if show == "chunks" else index_rows)(directory / file_name):
                yield {"file": file_name, **row}
        except FileNotFoundError:
            # Retention has removed the segment since the listing.
            continue


def _documents(stored: StoredQueues) -> Iterator[Row]:
    for document in stored.report.documents:
        yield {
            "kind": document.kind,
            **text_json("vhost", document.vhost),
            **text_json("name", document.name),
            "body": document.body,
        }
    for unreadable in stored.report.unreadable:
        yield {"path": escaped_text(str(unreadable.path)), "error": escaped_text(unreadable.reason)}


def _write_json(rows: Iterable[Row]) -> bool:
    is_damaged = False
    for row in rows:
        is_damaged |= _is_damage(row)
        click.echo(_encode(row))
    return is_damaged


def _encode(row: Row) -> bytes:
    try:
        return orjson.dumps(row)
    except TypeError:
        # Names that were not UTF-8 on the wire have surrogate escapes in definitions.
        return json.dumps(row).encode("ascii")


def _write_table(rows: Iterable[Row], characters_max: int | None) -> bool:
    """Write rows; rows with the same columns share one line of names."""
    is_damaged = False
    names: list[str] = []
    for row in rows:
        is_damaged |= _is_damage(row)
        if list(row) != names:
            names = list(row)
            click.echo("  ".join(name.upper() for name in names))
        click.echo("  ".join(_cell(row[name], characters_max) for name in names))
    return is_damaged


def _is_damage(row: Mapping[str, Any]) -> bool:
    return "lost" in row or "error" in row or ("fault" in row and not row.get("is_tail"))


def _cell(value: object, characters_max: int | None) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, dict | list):
        value = orjson.dumps(value).decode() if value else "-"
    text = shown(str(value))
    is_cut = characters_max is not None and len(text) > characters_max
    return f"{text[:characters_max]}..." if is_cut else text
