"""The command `amqp-server repair`: repairs damage that a start only skips; copies it first."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.maintenance.accept_definition import accept_definition
from amqp_server.maintenance.directory_check import check_directory
from amqp_server.maintenance.repair import Repair, RepairOptions, repair_directory
from amqp_server.maintenance.repair_plan import Remedy, Step
from amqp_server.maintenance.stored_queues import load_stored_queues
from appendlog.checking.problem import Level
from cli.command_failure import CommandFailedError
from cli.data_directory import (
    EXIT_CODES,
    HELP,
    data_directory_option,
    refusals,
)
from cli.display import shown
from cli.exit_codes import EXIT_FAILED
from cli.verify import OUTCOMES, check_json
from metadata.name_texts import escaped_text
from metadata.reading_lock import reading_lock

EXIT_TO_MEND: Final = 3
EXIT_LEFT: Final = 4


@click.command(
    context_settings=HELP,
    epilog=(
        "Examples: amqp-server repair --dry-run; amqp-server repair --yes. Exit codes: 0 no damage "
        "is left, 3 dry run: all damage can be repaired, 4 damage is left or would "
        "be, 5 a queue or definition that cannot be opened is left or would be, 2 refused, "
        "1 anything else."
    ),
)
@click.option("--dry-run", is_flag=True, help="Only report what would be done; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; required without a terminal.")
@click.option(
    "--drop-definitions",
    is_flag=True,
    help="Move unreadable definitions to the quarantine, with their queues' logs.",
)
@click.option(
    "--drop-checkpoints",
    is_flag=True,
    help="Move an unreadable checkpoint aside: settled messages are redelivered.",
)
@click.option(
    "--accept-definition",
    "accepted",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Sign a definition that you have edited; repair nothing. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")
@data_directory_option
def repair(
    storage_path: Path,
    *,
    dry_run: bool,
    yes: bool,
    drop_definitions: bool,
    drop_checkpoints: bool,
    accepted: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Repair what `verify` finds, in a data directory that no server uses.

    Rewrites damaged segments without the damage, and rebuilds wrong indexes and ends. Everything
    removed goes to DATA/quarantine/<time>, under the same path. At the end, recovers the directory
    as a start does, and reports what it could not repair.
    """
    if accepted:
        if dry_run or drop_definitions or drop_checkpoints:
            raise click.UsageError("--accept-definition goes with --json and --storage-path only")
        return _accept(storage_path, accepted, as_json=as_json)
    options = RepairOptions(drop_definitions, drop_checkpoints)
    with refusals():
        with reading_lock(storage_path) if storage_path.is_dir() else nullcontext():
            check = check_directory(load_stored_queues(storage_path))
        steps = options.plan(check)
        if dry_run or not steps:
            return _report_plan(steps, check.worst, as_json=as_json)
        if not as_json:
            _print_steps(steps)
        if not yes:
            _confirm(storage_path)
        done = repair_directory(storage_path, options, _silent if as_json else _say)
    assert done.check is not None
    _report_done(done, as_json=as_json)
    worst = done.check.worst
    return 0 if worst is Level.HARMLESS else EXIT_CODES[OUTCOMES[worst]]


def _accept(storage_path: Path, paths: tuple[Path, ...], *, as_json: bool) -> int:
    done = []
    with refusals():
        for path in paths:
            kept = accept_definition(storage_path, path)
            done.append((path, kept))
            if not as_json:
                was = "was signed already" if kept is None else f"accepted; as it was: {kept}"
                click.echo(f"{shown(str(path))}: {shown(was)}")
    if as_json:
        found = [
            {
                "path": escaped_text(str(path)),
                "copy": None if kept is None else escaped_text(str(kept)),
            }
            for path, kept in done
        ]
        click.echo(orjson.dumps({"accepted": found}, option=orjson.OPT_INDENT_2))
    return 0


def _say(text: str) -> None:
    click.echo(shown(text))


def _silent(_text: str) -> None:
    """Print nothing: the object at the end has it."""


def _confirm(storage_path: Path) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("no terminal for the question: write --yes to repair without it")
    if not click.confirm(f"Repair {storage_path}?", err=True):
        raise CommandFailedError("nothing was changed", EXIT_FAILED)


def _report_plan(steps: list[Step], worst: Level | None, *, as_json: bool) -> int:
    if as_json:
        plan = {"is_dry_run": True, "steps": [_step_json(step) for step in steps]}
        click.echo(orjson.dumps(plan, option=orjson.OPT_INDENT_2))
    elif steps:
        _print_steps(steps)
    else:
        click.echo("nothing to mend")
    if any(step.remedy is Remedy.NONE for step in steps):
        return EXIT_CODES[OUTCOMES[worst]] if worst is Level.UNREADABLE else EXIT_LEFT
    return EXIT_TO_MEND if steps else 0


def _print_steps(steps: list[Step]) -> None:
    for step in steps:
        click.echo(f"{step.remedy.value}: {shown(str(step.path))}: {shown(step.reason)}")


def _report_done(done: Repair, *, as_json: bool) -> None:
    assert done.check is not None
    if as_json:
        click.echo(orjson.dumps(_done_json(done), option=orjson.OPT_INDENT_2))
        return
    for queue, start, end in done.lost:
        click.echo(f"lost: offsets [{start}, {end}) of {shown(queue.name)} in {shown(queue.vhost)}")
    for step in done.left:
        click.echo(f"{step.remedy.value}: {shown(str(step.path))}: {shown(step.reason)}")
    for path in done.quarantine:
        click.echo(f"what was taken out is in {shown(str(path))}")
    click.echo(f"{OUTCOMES[done.check.worst].value} now; {len(done.done)} steps were done")


def _done_json(done: Repair) -> dict[str, Any]:
    assert done.check is not None
    return {
        "is_dry_run": False,
        "steps": [_step_json(step) for step in done.done],
        "left": [_step_json(step) for step in done.left],
        "lost": [
            {
                "vhost": escaped_text(queue.vhost),
                "name": escaped_text(queue.name),
                "offsets": [start, end],
            }
            for queue, start, end in done.lost
        ],
        "quarantine": [escaped_text(str(path)) for path in done.quarantine],
        "check": check_json(done.check),
    }


def _step_json(step: Step) -> dict[str, Any]:
    return {
        "remedy": step.remedy.value,
        "path": escaped_text(str(step.path)),
        "reason": escaped_text(step.reason),
    }
