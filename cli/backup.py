"""The command `amqp-server backup`: copies the data directory, with or without a running server."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from amqp_server.control.client import ControlError, UnreachableError, ask
from amqp_server.maintenance.backup import BackupFailedError, back_up
from cli.command_failure import CommandFailedError
from cli.data_directory import HELP, data_directory_option, refusals
from cli.display import shown_bytes
from cli.exit_codes import EXIT_FAILED
from metadata.reading_lock import is_served


@click.command(
    context_settings=HELP,
    epilog=(
        "Example: amqp-server backup /backup/monday && amqp-server verify --storage-path "
        "/backup/monday. Exit codes: 0 done, 2 refused, 1 anything else: then DIR is "
        "not a data directory."
    ),
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--copy", "is_copy", is_flag=True, help="Copy sealed segments too; make no links.")
@data_directory_option
def backup(directory: Path, storage_path: Path, *, is_copy: bool) -> int:
    """Copy the data directory to DIR, which must be empty or missing; the server may be running.

    If a server starts on DIR, it has every message confirmed before the backup began. Sealed
    segments become hard links if DIR is on the same file system: they take no space.
    """
    with refusals(), _progress() as on_log:
        try:
            done = back_up(
                storage_path,
                directory,
                may_link=not is_copy,
                redo_number=partial(_redo_number, storage_path),
                on_log=on_log,
            )
        except BackupFailedError as error:
            raise CommandFailedError(str(error), EXIT_FAILED) from error
    click.echo(
        f"{directory}: {done.documents} definitions, {done.logs} logs with {done.segments} "
        f"segments; {shown_bytes(done.linked_bytes)} linked, "
        f"{shown_bytes(done.copied_bytes)} copied"
    )
    return 0


def _redo_number(storage_path: Path) -> int | None:
    """Return the number of the running server's newest redo file; None if no server is running.

    Raises:
        CommandFailedError: A server is running, but does not answer.
    """
    try:
        status: dict[str, int] = ask(storage_path, "status")
    except UnreachableError as error:
        if is_served(storage_path):
            raise CommandFailedError(
                f"a server is running, but does not answer: {error}"
            ) from error
        return None
    except ControlError as error:
        raise CommandFailedError(error.reason, EXIT_FAILED) from error
    return status["redo_file"]


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    if not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=1, label="copying", file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show
