"""The command `amqp-server verify`: a complete check of a data directory that changes nothing."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.maintenance.directory_check import DirectoryCheck, QueueCheck, check_directory
from amqp_server.maintenance.stored_queues import StoredQueue, StoredQueues, load_stored_queues
from amqp_server.recovery.start_report import Outcome
from appendlog.checking.problem import Level, Problem
from cli.command_failure import CommandFailedError
from cli.data_directory import (
    EXIT_CODES,
    EXIT_CODES_TEXT,
    HELP,
    data_directory_option,
    refusals,
)
from cli.display import shown, shown_bytes
from metadata.name_texts import escaped_text

PROBLEMS_SHOWN: Final = 200
OUTCOMES: Final = {
    None: Outcome.CLEAN,
    Level.HARMLESS: Outcome.TORN,
    Level.DAMAGE: Outcome.DAMAGED,
    Level.UNREADABLE: Outcome.UNOPENED,
}


@click.command(
    context_settings=HELP,
    epilog=f"Example: amqp-server verify --queue orders --json. {EXIT_CODES_TEXT}",
)
@click.option("--queue", help="Check this queue only.")
@click.option("--vhost", default="/", show_default=True, help="Virtual host of the queue.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")
@data_directory_option
def verify(storage_path: Path, queue: str | None, vhost: str, *, as_json: bool) -> int:
    """Read everything in a data directory and report what is wrong.

    Checks every chunk and record, footers, indexes, durable ends, checkpoints and definitions
    against logs, and the redo journal. Changes nothing. A server may be running; then only data
    that it has put on the disk is checked.
    """
    with refusals():
        stored = load_stored_queues(storage_path)
        queues = None if queue is None else [find_queue(stored, vhost, queue)]
        with progress(stored, queues) as on_bytes:
            check = check_directory(stored, queues, on_bytes)
    outcome = OUTCOMES[check.worst]
    if as_json:
        click.echo(orjson.dumps(check_json(check), option=orjson.OPT_INDENT_2))
    else:
        print_check(check)
    return EXIT_CODES[outcome]


def find_queue(stored: StoredQueues, vhost: str, name: str) -> StoredQueue:
    """Return a queue by name.

    Raises:
        CommandFailedError: There is no such queue.
    """
    found = stored.find(vhost, name)
    if found is None:
        raise CommandFailedError(
            f"no durable queue '{shown(name)}' in vhost '{shown(vhost)}' of {stored.storage_path}"
        )
    return found


@contextmanager
def progress(
    stored: StoredQueues, queues: list[StoredQueue] | None
) -> Iterator[Callable[[int], None] | None]:
    """Show a progress bar on a terminal, otherwise nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    logs = [queue.directory for queue in (stored.queues if queues is None else queues)]
    size_bytes = sum(path.stat().st_size for log in logs for path in log.glob("*.log"))
    with click.progressbar(length=size_bytes, label="verifying", file=sys.stderr) as bar:
        yield bar.update


def check_json(check: DirectoryCheck) -> dict[str, Any]:
    """Return the result as JSON."""
    problems = check.all_problems()
    return {
        "outcome": OUTCOMES[check.worst].value,
        "is_live": check.is_live,
        "seconds": round(check.seconds, 3),
        "totals": {
            "queues": len(check.queues),
            "segments": sum(len(each.log.segments) for each in check.queues),
            "scanned_bytes": sum(each.log.scanned_bytes for each in check.queues),
            "records": sum(each.log.record_count for each in check.queues),
            "problems": len(problems) + sum(each.left_out for each in check.queues),
        },
        "checkpoint_generation": check.checkpoint_generation,
        "redo_transactions": check.redo_transactions,
        "problems": [_problem_json(problem) for problem in check.problems],
        "queues": [_queue_json(each) for each in check.queues],
    }


def _queue_json(check: QueueCheck) -> dict[str, Any]:
    log, queue = check.log, check.queue
    return {
        "vhost": escaped_text(queue.vhost),
        "name": escaped_text(queue.name),
        "is_delay_queue": queue.is_delay_queue,
        "incarnation": str(queue.incarnation),
        "segments": len(log.segments),
        "scanned_bytes": log.scanned_bytes,
        "records": log.record_count,
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "recovery_point": log.durable_end.recovery_point if log.durable_end else None,
        "checkpointed_floor": check.ack_floor,
        "problems": [_problem_json(problem) for problem in check.problems],
        "problems_left_out": check.left_out,
    }


def _problem_json(problem: Problem) -> dict[str, Any]:
    return {
        "level": problem.level.name.lower(),
        "kind": problem.kind,
        "path": escaped_text(str(problem.path)),
        "position": problem.position,
        "offsets": list(problem.offsets) if problem.offsets else None,
        "text": escaped_text(problem.text),
    }


def print_check(check: DirectoryCheck) -> None:
    """Print the summary, and one line for each problem."""
    print_problems(check)
    logs = [each.log for each in check.queues]
    beside = ", beside a running server" if check.is_live else ""
    click.echo(
        f"{OUTCOMES[check.worst].value}: {len(logs)} queues, "
        f"{sum(len(log.segments) for log in logs)} segments, "
        f"{sum(log.record_count for log in logs)} records, "
        f"{shown_bytes(sum(log.scanned_bytes for log in logs))} read in {check.seconds:.1f} s"
        f"{beside}"
    )


def print_problems(check: DirectoryCheck) -> None:
    """Print one line for each problem, up to `PROBLEMS_SHOWN`."""
    problems = check.all_problems()
    for problem in problems[:PROBLEMS_SHOWN]:
        at = "" if problem.position is None else f" at {problem.position}"
        level = problem.level.name.lower()
        click.echo(f"{level} {problem.kind} {shown(str(problem.path))}{at}: {shown(problem.text)}")
    more = len(problems) - PROBLEMS_SHOWN + sum(each.left_out for each in check.queues)
    if more > 0:
        click.echo(f"... and {more} more problems")
