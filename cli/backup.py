"""The command `amqp-server backup`: copies the data directory, with or without a running server."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.control.client import ControlError, UnreachableError, ask
from amqp_server.maintenance.backup import Backup, BackupFailedError, back_up
from amqp_server.maintenance.backup_run import BackupRun, back_up_into
from amqp_server.maintenance.backup_series import KEEP_MAX
from amqp_server.maintenance.directory_check import DirectoryCheck, check_directory
from amqp_server.maintenance.stored_queues import load_stored_queues
from cli.command_failure import CommandFailedError
from cli.data_directory import EXIT_CODES, HELP, data_directory_option, refusals
from cli.display import shown, shown_bytes
from cli.exit_codes import EXIT_DONE, EXIT_FAILED
from cli.termination import terminated_like_ctrl_c
from cli.verify import OUTCOMES, print_problems, progress
from metadata.name_texts import escaped_text
from metadata.reading_lock import is_served

_SAME_DISK: Final = (
    "lies on the file system of the data directory, and is lost with it: give a directory on "
    "another disk"
)


@click.command(
    context_settings=HELP,
    epilog=(
        "Examples: amqp-server backup /backup/monday && amqp-server verify --storage-path "
        "/backup/monday; amqp-server backup --into /backup --keep 7. Exit codes: 0 done, 2 "
        "refused, 1 anything else. After 2 or 1 there is no new back-up, but with --into 1 may "
        "also mean that an old one could not be removed. With --into also: 4 the copy has "
        "damage, 5 it has a queue or definition that cannot be opened, 130 interrupted."
    ),
)
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Make a new directory in DIR, named by the UTC time, and check the copy.",
)
@click.option(
    "--keep",
    type=click.IntRange(1, KEEP_MAX),
    metavar="N",
    help="With --into: after a good back-up remove the oldest good ones beyond N; without it none.",
)
@click.option("--copy", "is_copy", is_flag=True, help="Copy sealed segments too; make no links.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")
@data_directory_option
def backup(
    directory: Path | None,
    into: Path | None,
    keep: int | None,
    storage_path: Path,
    *,
    is_copy: bool,
    as_json: bool,
) -> int:
    """Copy the data directory to DIR, which must be empty or missing; the server may be running.

    If a server starts on the copy, it has every message confirmed before the backup began. Sealed
    segments become hard links if DIR is on the same file system: they take no space.

    With --into, a timer can run it. A copy with damage gets a name that ends in .damaged, and no
    good one is removed then; of many damaged ones --keep leaves the oldest and the newest. What
    this command has not made, or what a server has started on, is never removed.
    """
    if (directory is None) == (into is None):
        raise click.UsageError("give either DIR or --into DIR")
    if directory is not None:
        if keep is not None:
            raise click.UsageError("--keep does nothing without --into")
        done = _back_up(storage_path, directory, may_link=not is_copy)
        if as_json:
            _write_json({"path": escaped_text(str(directory)), **asdict(done)})
        else:
            click.echo(_copied_text(directory, done))
        return EXIT_DONE
    assert into is not None
    run = _back_up_into(storage_path, into, keep, may_link=not is_copy)
    _warn(run, into)
    if as_json:
        _write_json(_run_json(run))
    else:
        _print(run)
    if run.not_removed:
        raise CommandFailedError(
            f"{run.path} is good, but an old back-up cannot be removed: {run.not_removed}",
            EXIT_FAILED,
        )
    return EXIT_CODES[OUTCOMES[run.check.worst]] if not run.is_good else EXIT_DONE


def _back_up(storage_path: Path, directory: Path, *, may_link: bool) -> Backup:
    with _failures(), _progress() as on_log:
        return back_up(
            storage_path,
            directory,
            may_link=may_link,
            redo_number=partial(_redo_number, storage_path),
            on_log=on_log,
        )


def _back_up_into(storage_path: Path, into: Path, keep: int | None, *, may_link: bool) -> BackupRun:
    # A run that is told to end removes what it has copied.
    with terminated_like_ctrl_c(), _failures(), _progress() as on_log:
        return back_up_into(
            storage_path,
            into,
            keep=keep,
            may_link=may_link,
            redo_number=partial(_redo_number, storage_path),
            check=_check,
            on_log=on_log,
        )


def _check(path: Path) -> DirectoryCheck:
    stored = load_stored_queues(path)
    with progress(stored, None) as on_bytes:
        return check_directory(stored, None, on_bytes)


@contextmanager
def _failures() -> Iterator[None]:
    with refusals():
        try:
            yield
        except BackupFailedError as error:
            raise CommandFailedError(str(error), EXIT_FAILED) from error


def _warn(run: BackupRun, into: Path) -> None:
    if run.shares_disk:
        click.echo(f"warning: {shown(str(into))} {_SAME_DISK}", err=True)
    for path in run.leftovers:
        click.echo(f"removed what an interrupted run had left: {shown(str(path))}", err=True)
    for path in run.foreign:
        text = "has files that no back-up has, and is left alone"
        click.echo(f"warning: {shown(str(path))} {text}", err=True)
    if run.later:
        text = "is from the future: the clock is or was wrong, and the order of removal follows it"
        click.echo(f"warning: {shown(str(run.later[-1]))} {text}", err=True)


def _print(run: BackupRun) -> None:
    if not run.is_good:
        print_problems(run.check)
    click.echo(_copied_text(run.path, run.copied))
    click.echo(
        f"checked in {run.check.seconds:.1f} s: {OUTCOMES[run.check.worst].value}; "
        f"{len(run.kept)} good back-ups, {len(run.damaged)} with damage, "
        f"{len(run.removed)} removed"
    )


def _copied_text(path: Path, done: Backup) -> str:
    return (
        f"{path}: {done.documents} definitions, {done.logs} logs with {done.segments} "
        f"segments; {shown_bytes(done.linked_bytes)} linked, "
        f"{shown_bytes(done.copied_bytes)} copied"
    )


def _run_json(run: BackupRun) -> dict[str, Any]:
    def texts(paths: list[Path]) -> list[str]:
        return [escaped_text(str(path)) for path in paths]

    return {
        "path": escaped_text(str(run.path)),
        **asdict(run.copied),
        "outcome": OUTCOMES[run.check.worst].value,
        "is_good": run.is_good,
        "shares_disk": run.shares_disk,
        "kept": texts(run.kept),
        "damaged": texts(run.damaged),
        "removed": texts(run.removed),
        "leftovers_removed": texts(run.leftovers),
    }


def _write_json(value: dict[str, Any]) -> None:
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2))


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
