"""`amqp-server export --every`: an export that repeats itself, in one process with one Spark.

Each round is what another run of the command would be, without the start of Spark. A round that
fails is reported, and the next one tries again. See docs/spark-scheduled.md.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event
from typing import Final

import click

from amqp_server.service_manager import ServiceManager
from appendlog import LogError
from appendlog.spark.errors import (
    AmqplogError,
    LakeMissingError,
    NoQueueMatchesError,
    QueueNotFoundError,
)
from appendlog.spark.exporting.lease import ExportLeases
from appendlog.spark.objects.store_options import StoreOptions
from appendlog.spark.planning.choosing import Subscription, choose_queues
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.running.java import check_java
from appendlog.spark.running.masters import check_master_text
from cli.exit_codes import EXIT_DONE, EXIT_INTERRUPTED
from cli.export_progress import progress_on_terminal
from cli.export_record import ExportRecord
from cli.export_run import (
    ExportFailedError,
    ExportOptions,
    begin_record,
    carry_out,
    check_places,
    open_output,
    planned,
)
from cli.export_spark import SparkStarter
from cli.export_summary import ExportSummary, error_text, exit_code_of, print_json
from cli.export_texts import Json
from cli.server_group import PROGRAM
from cli.termination import terminated_like_ctrl_c

_NOTE: Final = "note: "


class RoundTimes:
    """Fixed starts of rounds: the first one now, each other a whole number of intervals later.

    The time that rounds take moves no later start. A start that a long round has passed is left
    out, so rounds neither overlap nor follow each other in a burst.

    Args:
        every_seconds: Interval, > 0.
        clock: Monotonic clock, in seconds.
    """

    def __init__(self, every_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_seconds = every_seconds
        self._clock = clock
        self._first = clock()

    def until_next(self) -> float:
        """Return the seconds from now to the next start, more than 0."""
        since_first = self._clock() - self._first
        intervals = since_first // self._every_seconds + 1
        return intervals * self._every_seconds - since_first


@dataclass(frozen=True, slots=True)
class Round:
    """Result of a round.

    Attributes:
        number: Number of the round, from 1 on.
        started_at: Start, in UTC.
        summary: Results of the queues; None if the round did not come to them.
        error: Why the round ended before its end; None if it did not.
    """

    number: int
    started_at: datetime
    summary: ExportSummary | None
    error: Exception | None = None

    @property
    def exit_code(self) -> int:
        """Return the code that another run of the command would have ended with."""
        if self.error is not None:
            return exit_code_of(self.error)
        assert self.summary is not None
        return self.summary.exit_code

    def text(self) -> str:
        """Return the result as one line, without its time."""
        if self.error is not None:
            return f"failed: {error_text(self.error)}"
        assert self.summary is not None
        queues = self.summary.queues
        exported = [queue for queue in queues if queue["status"] == "exported"]
        failed = sum(queue["status"] == "failed" for queue in queues)
        if exported:
            rows, files = (sum(queue[name] for queue in exported) for name in ("rows", "files"))
            text = f"{rows} messages of {_count(len(exported), 'queue')} in {_count(files, 'file')}"
        else:
            text = f"nothing new in {_count(len(queues) - failed, 'queue')}"
        if failed:
            text += f", {_count(failed, 'queue')} failed"
        return f"{text}, {self.summary.seconds:.1f} s"

    def document(self, where: str, next_at: datetime | None) -> Json:
        """Return the result as JSON values.

        Args:
            where: Output, as the user wrote it.
            next_at: Start of the next round; None if there is none.
        """
        found = {"out": where, "queues": []} if self.summary is None else self.summary.document()
        document = {"round": self.number, "started_at": _time_text(self.started_at), **found}
        document["exit_code"] = self.exit_code
        if self.error is not None:
            document["error"] = error_text(self.error)
        document["next_at"] = next_at and _time_text(next_at)
        return document


class RoundSummary(ExportSummary):
    """Results of a round: prints only what is unexpected, and that on standard error.

    Args:
        where: Output, as the user wrote it.
    """

    def __init__(self, where: str) -> None:
        super().__init__(where, as_json=True)

    def _add(self, text: str, queue: Json) -> None:
        super()._add(text, queue)
        for line in text.splitlines():
            if line.startswith(_NOTE):
                _say(f"{_NOTE}queue {queue['queue']}: {line.removeprefix(_NOTE)}")


def pause(seconds: float) -> None:
    """Wait for the next round; a signal ends the wait at once."""
    Event().wait(seconds)


def run_rounds(options: ExportOptions, every_seconds: float) -> int:
    """Export again and again, until a signal; return the exit code.

    Args:
        options: Options of the command.
        every_seconds: Time between the starts of two rounds.

    Raises:
        ExportFailedError: The options are refused, or no round can ever export anything.
    """
    service = ServiceManager.of(os.environ)
    try:
        reached_by = options.reached_by
        spark_settings = options.spark_settings
        wanted = options.wanted
        check_master_text(options.master)
        check_places(options)
        check_java()
    except AmqplogError as error:
        raise ExportFailedError(error) from error
    with ExitStack() as stack:
        stack.enter_context(terminated_like_ctrl_c())
        leases = stack.enter_context(ExportLeases(options.storage_path, _say, keeps=True))
        spark = stack.enter_context(SparkStarter(options.master, spark_settings, _say))
        rounds = _Rounds(options, wanted, reached_by, spark, leases)
        service.ready("first round")
        try:
            return _repeat(rounds, RoundTimes(every_seconds), service)
        finally:
            service.stopping()


def _repeat(rounds: "_Rounds", times: RoundTimes, service: ServiceManager) -> int:
    while True:
        try:
            ended = rounds.run()
        except KeyboardInterrupt:
            _say("interrupted: the next start exports what this round did not")
            return EXIT_INTERRUPTED
        try:
            if rounds.is_in_vain(ended):
                rounds.show(ended, None)
                _say(f"{PROGRAM}: error: no queue is left that another round could export")
                return ended.exit_code
            seconds = times.until_next()
            next_at = datetime.fromtimestamp(time.time() + seconds, UTC)
            service.status(rounds.show(ended, next_at))
            pause(seconds)
        except KeyboardInterrupt:
            return EXIT_DONE


class _Rounds:
    """Runs rounds, one at a time.

    Args:
        options: Options of the command.
        wanted: Queues to export.
        reached_by: Options of the object stores.
        spark: Spark of all rounds.
        leases: Leases of all rounds.
    """

    def __init__(
        self,
        options: ExportOptions,
        wanted: Subscription,
        reached_by: StoreOptions,
        spark: SparkStarter,
        leases: ExportLeases,
    ) -> None:
        self._options = options
        self._wanted = wanted
        self._reached_by = reached_by
        self._spark = spark
        self._leases = leases
        self._number = 0

    def run(self) -> Round:
        """Run one round.

        Raises:
            ExportFailedError: No round can ever succeed.
            KeyboardInterrupt: A signal has ended the round.
        """
        self._number += 1
        started_at = datetime.now(UTC)
        summary: RoundSummary | None = None
        record: ExportRecord | None = None
        try:
            store = open_output(self._options, self._reached_by)
            summary = RoundSummary(store.url)
            logs = self._choose(summary)
            record = begin_record(self._options, store)
            self._leases.end_others(logs)
            exports = planned(self._options, store, logs, self._leases, summary)
            if exports:
                with progress_on_terminal() as on_progress:
                    carry_out(
                        self._options, exports, self._spark, self._leases, summary, on_progress
                    )
        except LakeMissingError as error:
            raise ExportFailedError(error) from error
        except BrokenPipeError:
            # Standard output or standard error was closed.
            raise
        except (AmqplogError, LogError, OSError) as error:
            ended = Round(self._number, started_at, summary, error)
        except KeyboardInterrupt:
            self._end(record, summary, EXIT_INTERRUPTED)
            raise
        else:
            ended = Round(self._number, started_at, summary)
        self._end(record, summary, ended.exit_code)
        return ended

    def is_in_vain(self, ended: Round) -> bool:
        """Return whether no later round can export anything until somebody acts.

        With a pattern that is never so: another queue may appear.
        """
        if ended.error is not None or ended.summary is None or self._wanted.pattern is not None:
            return False
        return ended.summary.final == len(ended.summary.queues)

    def show(self, ended: Round, next_at: datetime | None) -> str:
        """Print the result of a round; return it as one line."""
        goes_on = f"; next at {_time_text(next_at)}" if next_at else ""
        line = f"round {ended.number}: {ended.text()}{goes_on}"
        if ended.error is not None:
            _say(f"{_time_text(ended.started_at)} {line}")
        elif not self._options.as_json:
            click.echo(f"{_time_text(ended.started_at)} {line}")
        if self._options.as_json:
            print_json(ended.document(self._options.out, next_at))
        return line

    def _choose(self, summary: ExportSummary) -> Sequence[QueueLog]:
        """Return the logs of the queues that exist now; report those that do not."""
        place, vhost = self._options.storage_path, self._options.vhost
        if self._wanted.pattern is not None:
            try:
                return choose_queues(place, vhost, self._wanted, self._reached_by)
            except NoQueueMatchesError:
                return []
        logs: list[QueueLog] = []
        for name in self._wanted.names:
            try:
                logs += choose_queues(place, vhost, Subscription((name,)), self._reached_by)
            except QueueNotFoundError as error:
                summary.add_unknown(vhost, name, error)
        return logs

    def _end(
        self, record: ExportRecord | None, summary: ExportSummary | None, exit_code: int
    ) -> None:
        if record is not None and summary is not None:
            known = [queue for queue in summary.queues if "incarnation" in queue]
            record.end(known, exit_code)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _time_text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _say(text: str) -> None:
    click.echo(text, err=True)
