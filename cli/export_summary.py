"""Result of an export: line by line, or as one JSON document; and the exit code."""

import os
import time
from typing import Final

import click
import orjson

from appendlog import CorruptRecordError
from appendlog.spark.errors import AmqplogError, CorruptLogError, DataLossError, SparkFailedError
from appendlog.spark.exporting.committing.manifest import OutputDamagedError
from appendlog.spark.exporting.destination import OtherQueueError
from appendlog.spark.exporting.export import QueueOutcome
from appendlog.spark.exporting.export_plan import QueuePlan
from appendlog.spark.planning.queues import QueueLog
from cli.exit_codes import EXIT_CORRUPT, EXIT_DATA_LOSS, EXIT_FAILED, EXIT_NOTHING_NEW, EXIT_REFUSED
from cli.export_texts import (
    Json,
    log_json,
    nothing_text,
    plan_json,
    plan_text,
    report_json,
    report_text,
    tasks_json,
)
from cli.server_group import PROGRAM

_WORST_FIRST: Final = (EXIT_FAILED, EXIT_CORRUPT, EXIT_DATA_LOSS, EXIT_REFUSED)


_FINAL: Final = (
    DataLossError,
    CorruptLogError,
    CorruptRecordError,
    OtherQueueError,
    OutputDamagedError,
)


def is_final(error: Exception) -> bool:
    """Return whether an error of a queue remains until somebody acts: another try is in vain."""
    return isinstance(error, _FINAL)


def exit_code_of(error: Exception) -> int:
    """Return the exit code for the error that stopped an export."""
    if isinstance(error, DataLossError):
        return EXIT_DATA_LOSS
    if isinstance(error, CorruptLogError | CorruptRecordError):
        return EXIT_CORRUPT
    is_refused = isinstance(error, AmqplogError) and not isinstance(error, SparkFailedError)
    return EXIT_REFUSED if is_refused else EXIT_FAILED


def error_text(error: Exception) -> str:
    """Return the error that stopped an export as one line; a file error begins with the file."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        name = error.filename if isinstance(error.filename, str) else os.fsdecode(error.filename)
        return f"{name}: {error.strerror}"
    return " ".join(str(error).split())


def print_json(document: Json) -> None:
    """Print a document as one line."""
    click.echo(orjson.dumps(document, default=str).decode())


class ExportSummary:
    """Results of all queues of a run.

    Args:
        where: Output, as the user wrote it.
        as_json: Whether to print nothing on standard output before the end.
    """

    def __init__(self, where: str, *, as_json: bool) -> None:
        self._where = where
        self._as_json = as_json
        self._begun = time.monotonic()
        self._queues: list[Json] = []
        self._codes: list[int] = []
        self._final = 0
        self._exported = 0

    @property
    def exported(self) -> int:
        """Return the number of queues with new messages in the output."""
        return self._exported

    @property
    def final(self) -> int:
        """Return the number of queues that another run cannot export either."""
        return self._final

    @property
    def queues(self) -> list[Json]:
        """Return what became of each queue so far."""
        return self._queues

    def begin_work(self) -> None:
        """Start to measure the time."""
        self._begun = time.monotonic()

    def add_nothing(self, plan: QueuePlan) -> None:
        """Report a queue whose messages are all in the output."""
        self._codes.append(EXIT_NOTHING_NEW)
        self._add(nothing_text(plan), {**plan_json(plan), "status": "nothing_new"})

    def add_plan(self, plan: QueuePlan) -> None:
        """Report the plan for a queue."""
        self._codes.append(0)
        planned = {**plan_json(plan), "status": "planned", "tasks": tasks_json(plan)}
        self._add(plan_text(plan), planned)

    def add_failure(self, log: QueueLog, error: Exception) -> None:
        """Report a queue of which nothing was exported."""
        code = exit_code_of(error)
        self._final += is_final(error)
        self._fail(log_json(log), error, code)

    def add_unknown(self, vhost: str, queue: str, error: Exception) -> None:
        """Report a queue that does not exist now."""
        self._fail({"vhost": vhost, "queue": queue}, error, exit_code_of(error))

    def add_outcome(self, outcome: QueueOutcome) -> None:
        """Report a processed queue."""
        plan = outcome.export.plan
        report = outcome.report
        if outcome.error is not None:
            self.add_failure(plan.log, outcome.error)
            return
        assert report is not None
        self._codes.append(0)
        self._exported += 1
        seconds = self.seconds
        exported = {**plan_json(plan), "status": "exported", **report_json(report)}
        self._add(report_text(plan, report, self._where, seconds), exported)

    @property
    def seconds(self) -> float:
        """Return the seconds since the work began."""
        return time.monotonic() - self._begun

    @property
    def exit_code(self) -> int:
        """Return the worst exit code so far; 3 if there was nothing new."""
        good = 0 if 0 in self._codes else EXIT_NOTHING_NEW
        return next((code for code in _WORST_FIRST if code in self._codes), good)

    def finish(self) -> int:
        """Print the JSON document, if it is wanted; return the exit code."""
        if self._as_json:
            print_json(self.document())
        return self.exit_code

    def document(self) -> Json:
        """Return the results so far, as JSON values."""
        return {
            "out": self._where,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 3),
            "queues": self._queues,
        }

    def _fail(self, queue: Json, error: Exception, code: int) -> None:
        self._codes.append(code)
        message = error_text(error)
        click.echo(f"{PROGRAM}: error: {message}", err=True)
        self._queues.append({**queue, "status": "failed", "error": message, "exit_code": code})

    def _add(self, text: str, queue: Json) -> None:
        self._queues.append(queue)
        if not self._as_json:
            click.echo(text)
