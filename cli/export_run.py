"""Execution of `amqp-server export` after its options are parsed; imports Spark and Arrow."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from appendlog import LogError
from appendlog.spark.errors import AmqplogError, SparkFailedError, StoreError
from appendlog.spark.exporting.export import FileSettings, QueueExport, run_export
from appendlog.spark.exporting.export_plan import ExportRequest, in_tasks, plan_queue
from appendlog.spark.exporting.files.file_task import FileTask, TaskResult
from appendlog.spark.exporting.lease import ExportLeases
from appendlog.spark.exporting.output_kinds import OUTPUT_KINDS
from appendlog.spark.exporting.spark_runner import SparkRunner
from appendlog.spark.exporting.stores.opening import open_store
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.time_partitions import PartitionBy
from appendlog.spark.objects.location import Location
from appendlog.spark.planning.choosing import Subscription, choose_queues
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.settlement import Include
from appendlog.spark.running.configuration import parse_spark_conf
from appendlog.spark.running.java import check_java
from appendlog.spark.running.masters import check_master, local_cores
from appendlog.spark.running.session import spark_session
from cli.command_failure import CommandFailedError
from cli.exit_codes import EXIT_INTERRUPTED
from cli.export_bounds import Since
from cli.export_progress import progress_shown
from cli.export_record import ExportRecord
from cli.export_summary import ExportSummary, error_text, exit_code_of
from cli.output_place import check_output_place
from cli.store_options import reach_stores
from cli.termination import terminated_like_ctrl_c

if TYPE_CHECKING:
    from appendlog.spark.planning.bounds import Bound

CLUSTER_CORES: Final = 32
"""Assumed number of cores of a cluster, which need not be running during the planning."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of the command.

    Attributes:
        storage_path: Data directory.
        vhost: Virtual host of the queues.
        queues: Names of queues, each a list with commas; empty if there is a pattern.
        pattern: Pattern of names.
        kind: Kind of output: `parquet`, ...
        out: Output.
        since: Start; None means everything that is not in the output yet.
        until: End; None means the durable end.
        target_file_bytes: Size at which a file ends.
        partition_by: `day`, `hour` or None.
        skips_damage: Whether to put damaged parts of the log into quarantine and continue.
        allows_loss: Whether to continue without offsets that the log has lost.
        include: `all`, `acked` or `unacked`.
        master: Master of Spark.
        takes_leases: Whether retention is asked to keep the segments.
        spark_conf: Settings of Spark, as texts KEY=VALUE.
        store_options: Options of the object stores, as texts KEY=VALUE; never shown.
        is_dry_run: Whether only to print what would be done.
        as_json: Whether to print one JSON document.
    """

    storage_path: Path
    vhost: str
    queues: tuple[str, ...]
    pattern: str | None
    kind: str
    out: str
    since: Since | None
    until: "Bound | None"
    target_file_bytes: int
    partition_by: str | None
    skips_damage: bool
    allows_loss: bool
    include: str
    master: str
    spark_conf: tuple[str, ...]
    store_options: tuple[str, ...] = field(repr=False)
    takes_leases: bool
    is_dry_run: bool
    as_json: bool


class ExportFailedError(CommandFailedError):
    """Nothing was exported, for a reason that all queues share."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error_text(error), exit_code_of(error))


def run(options: ExportOptions) -> int:
    """Run the export; return the exit code.

    Raises:
        ExportFailedError: Nothing was exported, for a reason that affects all queues.
    """
    try:
        settings = parse_spark_conf(options.spark_conf)
        check_master(options.master)
        reached_by = reach_stores(
            options.store_options, storage_path=options.storage_path, out=options.out
        )
        _check_places(options)
        store = open_store(options.out, reached_by.as_dict())
        check_output_place(store, options.storage_path)
        wanted = _subscription(options)
        logs = choose_queues(options.storage_path, options.vhost, wanted, reached_by)
    except (AmqplogError, LogError, OSError) as error:
        raise ExportFailedError(error) from error
    summary = ExportSummary(store.url, as_json=options.as_json)
    record = ExportRecord.begin(options.storage_path, store.url, _settings(options), _say)
    try:
        with terminated_like_ctrl_c(), ExportLeases(options.storage_path, _say) as leases:
            exports = _planned(options, store, logs, leases, summary)
            if exports and not options.is_dry_run:
                _export(options, settings, exports, summary)
    except (AmqplogError, LogError, OSError) as error:
        failed = ExportFailedError(error)
        record.end(summary.queues, failed.exit_code)
        raise failed from error
    except KeyboardInterrupt:
        record.end(summary.queues, EXIT_INTERRUPTED)
        done = f"{summary.exported} of {len(logs)} queues were" if summary.exported else "nothing"
        _say(f"interrupted: {done} {'' if summary.exported else 'was '}exported")
        return EXIT_INTERRUPTED
    code = summary.finish()
    record.end(summary.queues, code)
    return code


def _settings(options: ExportOptions) -> dict[str, object] | None:
    """Return what the server may show of the options; None for a run that changes nothing."""
    if options.is_dry_run:
        return None
    return {
        "vhost": options.vhost,
        "queues": list(options.queues),
        "pattern": options.pattern,
        "to": options.kind,
        "since": "last" if options.since and options.since.bound is None else None,
        "include": options.include,
        "partition_by": options.partition_by,
        "on_corrupt": "quarantine" if options.skips_damage else "fail",
        "allow_data_loss": options.allows_loss,
    }


def _check_places(options: ExportOptions) -> None:
    """Refuse places that Spark's workers cannot reach."""
    places = [Location.of(options.storage_path), Location.of(Path(options.out))]
    for place in places:
        if place is not None and place.scheme == "memory":
            raise StoreError(
                f"{place}: memory:// exists in one process only; Spark's workers cannot read it"
            )


def _subscription(options: ExportOptions) -> Subscription:
    if options.pattern is not None:
        return Subscription.to_pattern(options.pattern)
    return Subscription.to_names(",".join(options.queues))


def _request(options: ExportOptions) -> ExportRequest:
    return ExportRequest(
        since=options.since.bound if options.since else None,
        is_since_last=options.since is not None and options.since.bound is None,
        until=options.until,
        include=Include(options.include),
        partition_by=PartitionBy(options.partition_by) if options.partition_by else None,
        allows_loss=options.allows_loss,
        skips_damage=options.skips_damage,
    )


def _planned(
    options: ExportOptions,
    store: OutputStore,
    logs: Sequence[QueueLog],
    leases: ExportLeases,
    summary: ExportSummary,
) -> list[QueueExport]:
    """Return the exports to do; report the queues that have none."""
    request = _request(options)
    destination_of = OUTPUT_KINDS[options.kind].destinations(store, request.partition_by)
    exports: list[QueueExport] = []
    for log in logs:
        if options.takes_leases and not options.is_dry_run:
            leases.take(log)
        destination = destination_of(log)
        try:
            plan = plan_queue(options.storage_path, log, destination, request)
        except (AmqplogError, LogError, OSError) as error:
            leases.end(log)
            summary.add_failure(log, error)
            continue
        if plan.is_empty:
            leases.end(log)
            summary.add_nothing(plan)
            continue
        if plan.pieces:
            leases.hold_from(log, plan.pieces[0].splits[0].start_offset)
        exports.append(QueueExport(plan, destination))
    cores = local_cores(options.master) or CLUSTER_CORES
    plans = in_tasks([export.plan for export in exports], cores)
    if options.is_dry_run:
        for plan in plans:
            summary.add_plan(plan)
    return [
        QueueExport(plan, export.destination) for plan, export in zip(plans, exports, strict=True)
    ]


def _export(
    options: ExportOptions,
    settings: Mapping[str, str],
    exports: Sequence[QueueExport],
    summary: ExportSummary,
) -> None:
    files = FileSettings(
        OUTPUT_KINDS[options.kind].file_format, options.target_file_bytes, options.skips_damage
    )
    if any(export.plan.pieces for export in exports):
        # Starting Spark checks this again; here it fails before anything is written.
        check_java()
    for export in exports:
        plan = export.plan
        _say(f"queue {plan.log.queue}: {plan.offset_count} offsets in {len(plan.pieces)} tasks")
    with ExitStack() as stack, progress_shown() as on_progress:
        runner = _StartingRunner(stack, options.master, settings, summary.begin_work)
        run_export(runner, exports, files, on_progress, summary.add_outcome)


class _StartingRunner:
    """Starter of Spark, once there are tasks for it: all refusals come before.

    Args:
        stack: Stops Spark at its end, when everything is committed.
        master: Master of Spark.
        settings: Settings of Spark.
        on_start: Called when Spark has started.
    """

    def __init__(
        self,
        stack: ExitStack,
        master: str,
        settings: Mapping[str, str],
        on_start: Callable[[], None],
    ) -> None:
        self._stack = stack
        self._master = master
        self._settings = settings
        self._on_start = on_start

    def run(self, tasks: Sequence[FileTask], on_done: Callable[[int], None]) -> list[TaskResult]:
        """See `TaskRunner.run`."""
        _say(f"starting Spark ({self._master})")
        log_path = self._stack.enter_context(_spark_log())
        session = self._stack.enter_context(
            spark_session(self._master, log_path, self._settings, _say)
        )
        self._on_start()
        return SparkRunner(session.sparkContext).run(tasks, on_done)


@contextmanager
def _spark_log() -> Iterator[Path]:
    """Yield a file for the output of Spark; it is kept if Spark has failed."""
    directory = Path(tempfile.mkdtemp(prefix="amqp-server-export-"))
    path = directory / "spark.log"
    try:
        yield path
    except SparkFailedError as error:
        raise SparkFailedError(f"{error}; more in {path}") from error
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    shutil.rmtree(directory, ignore_errors=True)


def _say(text: str) -> None:
    click.echo(text, err=True)
