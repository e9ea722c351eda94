"""The command `amqp-server offsets`: offsets of consumer groups, on the running server."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.admin.views.values import time_text
from amqp_server.control.protocol import ErrorKind
from cli.control import (
    EXIT_CODES,
    RequestFailedError,
    ask_server,
    check_utf8,
    storage_path_option,
)
from cli.display import shown, shown_bytes, shown_field
from cli.position_types import OffsetTextType

Row = dict[str, Any]

_HELP: Final = {"help_option_names": ["-h", "--help"]}
_FORMS: Final = "earliest, latest, an offset, -N (messages before the end), a time or an age (1h)"
_ONE_OF_BOTH: Final = "write one of --queue and --shards"
COLUMNS: Final = (
    ("COMMITTED", "committed", 12),
    ("POSITION", "position", 12),
    ("END", "log_end_offset", 12),
    ("LAG", "lag", 10),
    ("MEMBERS", "members", 8),
    ("DROPPED", "dropped_total", 10),
)


def _log_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that select a stream, or an exchange with shards."""
    options = (
        click.option(
            "--queue",
            default="",
            show_default=False,
            callback=check_utf8,
            help="Name of the stream.",
        ),
        click.option(
            "--shards",
            default="",
            show_default=False,
            callback=check_utf8,
            metavar="EXCHANGE",
            help="Exchange of type x-consistent-hash: all its shards, not one queue.",
        ),
        click.option(
            "--vhost",
            default="/",
            show_default=True,
            callback=check_utf8,
            help="Virtual host of the stream or exchange.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Write a JSON array of objects."),
        storage_path_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


group_option = click.option(
    "--group", required=True, callback=check_utf8, help="Name of the group."
)
to_option = click.option("--to", required=True, type=OffsetTextType(), help=f"Position: {_FORMS}.")


@click.group(
    context_settings=_HELP,
    epilog=(
        "Examples: amqp-server offsets list --queue events; amqp-server offsets seek --queue "
        f"events --group billing --to 1h; docs/offsets.md has more. {EXIT_CODES}"
    ),
)
def offsets() -> None:
    """Show, commit, move and delete the offsets of consumer groups in streams.

    A group has settled everything below its commit; its consumers continue there. Every change is
    on the disk when the command returns. The data directory identifies the server.
    """


@offsets.command("list", context_settings=_HELP, epilog=EXIT_CODES)
@click.option("--group", default="", callback=check_utf8, metavar="G", help="Only this group.")
@_log_options
def list_all(
    storage_path: Path, queue: str, shards: str, vhost: str, group: str, *, as_json: bool
) -> int:
    """List the groups of a stream, or of all shards of an exchange, by name.

    Without --queue and --shards, list the groups of all streams of the virtual host.
    """
    if queue and shards:
        raise click.UsageError(_ONE_OF_BOTH)
    names = {"queue": queue, "shards": shards, "vhost": vhost}
    rows: list[Row] = ask_server(storage_path, "offsets.list", **names)
    if group:
        rows = [row for row in rows if row["group"] == group]
    if as_json:
        return _write_json(rows)
    _write_table(rows, is_sharded=bool(shards), is_of_all=not (queue or shards))
    return 0


@offsets.command(
    context_settings=_HELP,
    epilog=f"Example: amqp-server offsets show --queue events --group billing. {EXIT_CODES}",
)
@click.option(
    "--group", default="", show_default=False, callback=check_utf8, help="Name of the group."
)
@_log_options
def show(
    storage_path: Path, queue: str, shards: str, vhost: str, group: str, *, as_json: bool
) -> int:
    """Show the offset, the lag and all other data of a group.

    Without --group, for an ordinary queue: what the queue itself has settled.
    """
    rows = _request(storage_path, "show", queue, shards, vhost, group=group)
    if as_json:
        return _write_json(rows)
    if shards:
        _write_table(rows, is_sharded=True)
        return 0
    for row in rows:
        for name, value in row.items():
            if name == "exists":
                continue
            click.echo(f"{name.removesuffix('_ns').replace('_', ' '):<24}{_value(name, value)}")
    return 0


@offsets.command(
    context_settings=_HELP,
    epilog=(
        "Example: amqp-server offsets commit --queue events --group billing --to 1200. "
        f"{EXIT_CODES}"
    ),
)
@group_option
@to_option
@click.option("--force", is_flag=True, help="Also go back, as a seek does.")
@_log_options
def commit(
    storage_path: Path,
    queue: str,
    shards: str,
    vhost: str,
    group: str,
    to: str,
    *,
    force: bool,
    as_json: bool,
) -> int:
    """Commit everything below a position for a group.

    A position below the present commit is refused without --force.
    """
    rows = _request(storage_path, "commit", queue, shards, vhost, group=group, to=to, force=force)
    return _write_moved(rows, as_json=as_json)


@offsets.command(
    context_settings=_HELP,
    epilog=(
        "Examples: amqp-server offsets seek --queue events --group billing --to earliest; "
        f"... --to -1000; ... --to 2026-11-21T10:00:00Z. {EXIT_CODES}"
    ),
)
@group_option
@to_option
@click.option(
    "--force", is_flag=True, help="Also while the group has consumers: they continue there."
)
@_log_options
def seek(
    storage_path: Path,
    queue: str,
    shards: str,
    vhost: str,
    group: str,
    to: str,
    *,
    force: bool,
    as_json: bool,
) -> int:
    """Move a group to another position, back or forward.

    Acks from there on are discarded. With --force, the group's consumers are moved too; their
    replies to earlier deliveries have no effect.
    """
    rows = _request(storage_path, "seek", queue, shards, vhost, group=group, to=to, force=force)
    return _write_moved(rows, as_json=as_json)


@offsets.command(
    context_settings=_HELP,
    epilog=f"Example: amqp-server offsets delete --queue events --group billing. {EXIT_CODES}",
)
@group_option
@click.option(
    "--force", is_flag=True, help="Also while the group has consumers: they are cancelled."
)
@_log_options
def delete(
    storage_path: Path,
    queue: str,
    shards: str,
    vhost: str,
    group: str,
    *,
    force: bool,
    as_json: bool,
) -> int:
    """Delete a group. The messages stay; a new group of that name begins without a commit."""
    rows = _request(storage_path, "delete", queue, shards, vhost, group=group, force=force)
    if as_json:
        return _write_json(rows)
    for row in rows:
        click.echo(f"deleted group '{shown(group)}' of {_log(row)}, which was at {_commit(row)}")
    return 0


def _request(
    storage_path: Path, command: str, queue: str, shards: str, vhost: str, **arguments: object
) -> list[Row]:
    if bool(queue) == bool(shards):
        raise click.UsageError(_ONE_OF_BOTH)
    try:
        rows: list[Row] = ask_server(
            storage_path,
            f"offsets.{command}",
            queue=queue,
            shards=shards,
            vhost=vhost,
            **arguments,
        )
    except RequestFailedError as error:
        if error.kind is not ErrorKind.IN_USE:
            raise
        text = f"{error.message}: --force does it nevertheless"
        raise RequestFailedError(text, error.exit_code, error.kind) from error
    return rows


def _write_json(rows: list[Row]) -> int:
    click.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
    return 0


def _write_moved(rows: list[Row], *, as_json: bool) -> int:
    if as_json:
        return _write_json(rows)
    for row in rows:
        before = row["committed_before"]
        was = "no commit before" if before is None else f"{before} before"
        click.echo(f"group '{shown(row['group'])}' of {_log(row)}: {_commit(row)}, {was}")
    return 0


def _write_table(rows: Iterable[Row], *, is_sharded: bool, is_of_all: bool = False) -> None:
    head = f"{'SHARD':>5}" if is_sharded else ""
    titles = "".join(f"{title:>{width}}" for title, _, width in COLUMNS)
    click.echo(f"{head}{titles}  GROUP{' of QUEUE' if is_of_all else ''}")
    for row in rows:
        cells = "".join(f"{_value(field, row.get(field)):>{width}}" for _, field, width in COLUMNS)
        shard = f"{row['shard']:>5}" if is_sharded else ""
        group = "(the queue itself)" if row["group"] is None else shown(row["group"])
        queue = f" of {shown_field(row, 'queue')}" if is_of_all else ""
        click.echo(f"{shard}{cells}  {group}{queue}")


def _log(row: Row) -> str:
    shard = f"shard {row['shard']}, " if "shard" in row else ""
    return f"{shard}queue '{shown_field(row, 'queue')}' in vhost '{shown_field(row, 'vhost')}'"


def _commit(row: Row) -> str:
    committed = row.get("committed")
    return "no commit" if committed is None else f"commit {committed}"


def _value(field: str, value: object) -> str:
    if value is None:
        return "-"
    if field.endswith("_bytes") and isinstance(value, int):
        return shown_bytes(value)
    if field == "updated_at_ns" and isinstance(value, int):
        return time_text(value) or "-"
    return shown(str(value))
