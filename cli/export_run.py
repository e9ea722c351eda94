"""Execution of `amqp-server export` after its options are parsed; imports Spark and Arrow."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from appendlog import LogError
from appendlog.spark.errors import AmqplogError, StoreError
from appendlog.spark.exporting.export import FileSettings, QueueExport, QueueOutcome, run_export
from appendlog.spark.exporting.export_plan import ExportRequest, in_tasks, plan_queue
from appendlog.spark.exporting.lease import ExportLeases
from appendlog.spark.exporting.output_kinds import OUTPUT_KINDS
from appendlog.spark.exporting.partition_fields import NO_PARTITIONS, Partitioning
from appendlog.spark.exporting.stores.opening import open_store
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.objects.location import Location
from appendlog.spark.objects.store_options import StoreOptions
from appendlog.spark.planning.choosing import Subscription, choose_queues
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.settlement import Include
from appendlog.spark.running.configuration import parse_spark_conf
from appendlog.spark.running.java import check_java
from appendlog.spark.running.masters import check_master, local_cores
from cli.command_failure import CommandFailedError
from cli.exit_codes import EXIT_INTERRUPTED
from cli.export_bounds import Since
from cli.export_progress import OnProgress, progress_shown
from cli.export_record import ExportRecord
from cli.export_spark import SparkStarter
from cli.export_summary import ExportSummary, error_text, exit_code_of, is_final
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
        partition_by: How files are divided, as the user has written it; None for no division.
        skips_damage: Whether to put damaged parts of the log into quarantine and continue.
        allows_loss: Whether to continue without offsets that the log has lost.
        include: `all`, `acked` or `unacked`.
        master: Master of Spark.
        takes_leases: Whether retention is asked to keep the segments.
        spark_conf: Settings of Spark, as texts KEY=VALUE.
        store_options: Options of the object stores, as texts KEY=VALUE; never shown.
        every_seconds: Time between the starts of two rounds; None for one run.
        is_dry_run: Whether only to print what would be done.
        as_json: Whether to print one JSON document, of each round.
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
    every_seconds: float | None
    is_dry_run: bool
    as_json: bool

    @property
    def spark_settings(self) -> dict[str, str]:
        """Return the settings of Spark.

        Raises:
            SparkConfError: A text is none.
        """
        return parse_spark_conf(self.spark_conf)

    @property
    def reached_by(self) -> StoreOptions:
        """Return the options of the object stores.

        Raises:
            StoreError: A text is none, or there is no object store.
        """
        return reach_stores(self.store_options, storage_path=self.storage_path, out=self.out)

    @property
    def partitioning(self) -> Partitioning:
        """Return how files are divided.

        Raises:
            PartitionFieldError: The text cannot be understood.
        """
        return Partitioning.parse(self.partition_by) if self.partition_by else NO_PARTITIONS

    @property
    def wanted(self) -> Subscription:
        """Return the queues.

        Raises:
            SubscriptionError: The names or the pattern are none.
        """
        if self.pattern is not None:
            return Subscription.to_pattern(self.pattern)
        return Subscription.to_names(",".join(self.queues))


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
        settings = options.spark_settings
        check_master(options.master)
        reached_by = options.reached_by
        store = open_output(options, reached_by)
        logs = choose_queues(options.storage_path, options.vhost, options.wanted, reached_by)
    except (AmqplogError, LogError, OSError) as error:
        raise ExportFailedError(error) from error
    summary = ExportSummary(store.url, as_json=options.as_json)
    record = begin_record(options, store)
    try:
        with (
            terminated_like_ctrl_c(),
            ExportLeases(options.storage_path, _say) as leases,
            SparkStarter(options.master, settings, _say, summary.begin_work) as spark,
            progress_shown() as on_progress,
        ):
            exports = planned(options, store, logs, leases, summary)
            if exports and not options.is_dry_run:
                for export in exports:
                    plan = export.plan
                    tasks = f"{len(plan.pieces)} tasks"
                    _say(f"queue {plan.log.queue}: {plan.offset_count} offsets in {tasks}")
                carry_out(options, exports, spark, leases, summary, on_progress)
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


def open_output(options: ExportOptions, reached_by: StoreOptions) -> OutputStore:
    """Return the store of the output, if it and the data directory are places for an export.

    Raises:
        AmqplogError: They are not.
        OSError: The place of the output cannot be looked at.
    """
    check_places(options)
    store = open_store(options.out, reached_by.as_dict())
    check_output_place(store, options.storage_path)
    return store


def begin_record(options: ExportOptions, store: OutputStore) -> ExportRecord:
    """Note that a run begins, for people who look at the server."""
    return ExportRecord.begin(options.storage_path, store.url, _settings(options), _say)


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


def check_places(options: ExportOptions) -> None:
    """Refuse places that Spark's workers cannot reach.

    Raises:
        StoreError: A place is in the memory of one process.
    """
    places = [Location.of(options.storage_path), Location.of(Path(options.out))]
    for place in places:
        if place is not None and place.scheme == "memory":
            raise StoreError(
                f"{place}: memory:// exists in one process only; Spark's workers cannot read it"
            )


def _request(options: ExportOptions) -> ExportRequest:
    return ExportRequest(
        since=options.since.bound if options.since else None,
        is_since_last=options.since is not None and options.since.bound is None,
        until=options.until,
        include=Include(options.include),
        partition_by=options.partitioning.unit,
        allows_loss=options.allows_loss,
        skips_damage=options.skips_damage,
    )


def planned(
    options: ExportOptions,
    store: OutputStore,
    logs: Sequence[QueueLog],
    leases: ExportLeases,
    summary: ExportSummary,
) -> list[QueueExport]:
    """Return the exports to do; report the queues that have none.

    Raises:
        AmqplogError: No queue can be exported to the output.
    """
    request = _request(options)
    destination_of = OUTPUT_KINDS[options.kind].destinations(store, options.partitioning)
    exports: list[QueueExport] = []
    for log in logs:
        if options.takes_leases and not options.is_dry_run:
            leases.take(log)
        destination = destination_of(log)
        try:
            plan = plan_queue(options.storage_path, log, destination, request)
        except (AmqplogError, LogError, OSError) as error:
            leases.failed(log, is_final=is_final(error))
            summary.add_failure(log, error)
            continue
        if plan.is_empty:
            leases.exported(log, plan.next_offset)
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


def carry_out(
    options: ExportOptions,
    exports: Sequence[QueueExport],
    spark: SparkStarter,
    leases: ExportLeases,
    summary: ExportSummary,
    on_progress: OnProgress,
) -> None:
    """Carry out the exports, and report what becomes of each queue.

    Raises:
        AmqplogError: Nothing more was exported, for a reason that all queues share.
    """
    kind = OUTPUT_KINDS[options.kind]
    files = FileSettings(
        kind.file_format,
        options.target_file_bytes,
        options.skips_damage,
        options.partitioning.fields,
        kind.keeps_fields,
    )
    if not spark.has_started and any(export.plan.pieces for export in exports):
        # Starting Spark checks this again; here it fails before anything is written.
        check_java()

    def report(outcome: QueueOutcome) -> None:
        plan = outcome.export.plan
        if outcome.error is None:
            leases.exported(plan.log, plan.next_offset)
        else:
            leases.failed(plan.log, is_final=is_final(outcome.error))
        summary.add_outcome(outcome)

    run_export(spark, exports, files, on_progress, report)


def _say(text: str) -> None:
    click.echo(text, err=True)
