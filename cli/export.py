"""The command `amqp-server export`: has Spark write the messages of queues to files.

This module only has the options. Spark and Arrow are imported when the command runs, so that its
help page needs neither.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from cli.export_bounds import BoundType, SinceType
from cli.export_group import ARGUMENTS, ExportGroup
from cli.store_options import store_option
from cli.units import DURATION, SIZE

KINDS: Final = ("parquet", "jsonl", "jsonl.gz", "jsonl.zst", "delta", "iceberg")
FILE_BYTES_MIN: Final = 1024
EVERY_SECONDS_MIN: Final = 1
EVERY_SECONDS_MAX: Final = 31 * 86_400


def _check_target(ctx: click.Context, param: click.Parameter, value: int) -> int:
    """Refuse a size that would make a file for each message.

    Raises:
        click.BadParameter: The size is too small.
    """
    if value < FILE_BYTES_MIN:
        raise click.BadParameter(f"{value} bytes: write at least 1KiB; 128MiB to 1GiB is usual")
    return value


def _check_interval(
    ctx: click.Context, param: click.Parameter, value: float | None
) -> float | None:
    """Refuse an interval at which no export can repeat itself.

    Raises:
        click.BadParameter: The interval is too short or too long.
    """
    if value is not None and not EVERY_SECONDS_MIN <= value <= EVERY_SECONDS_MAX:
        raise click.BadParameter("write at least 1s and at most 31d; 1m to 1h is usual")
    return value


def _check_partitions(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse what divides no files.

    Raises:
        click.BadParameter: The text cannot be understood.
    """
    if value is not None:
        from appendlog.spark.errors import PartitionFieldError
        from appendlog.spark.exporting.partition_fields import Partitioning

        try:
            Partitioning.parse(value)
        except PartitionFieldError as error:
            raise click.BadParameter(str(error)) from error
    return value


@click.group(
    cls=ExportGroup,
    invoke_without_command=True,
    epilog="""\b
Examples:
  amqp-server export --queue orders --out ./lake
  amqp-server export --queue orders,invoices --to delta --out /lake/shop --since last
  amqp-server export --pattern 'orders[.].*' --out ./lake --partition-by day --dry-run
  amqp-server export --queue orders --out ./lake --since 2026-11-20 --until 2026-11-21
  amqp-server export --pattern 'orders[.].*' --out s3://lake/orders --every 10m

Exit codes: 0 exported, 2 refused, 3 nothing new, 4 the log has lost offsets, 5 the log is damaged,
130 interrupted, 1 anything else; the worst code of several queues. Another run exports what is
new. With --every: 0 if it was ended between two rounds.""",
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--storage-path",
    type=click.Path(path_type=Path),
    default="./data",
    envvar="AMQP_SERVER_STORAGE_PATH",
    help="Data directory of the server, which may be running; or s3://bucket/folder, a copy of it.",
)
@click.option("--vhost", default="/", help="Virtual host of the queues.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME[,NAME...]",
    help="Durable queues to export; may be repeated.",
)
@click.option(
    "--pattern", metavar="REGEX", help="Queues whose whole name matches; instead of --queue."
)
@click.option("--to", "kind", type=click.Choice(KINDS), default="parquet", help="Kind of output.")
@click.option(
    "--out",
    metavar="DIR|URL",
    help="Output: a directory, created if missing, or s3://bucket/folder.  [required]",
)
@click.option(
    "--since",
    type=SinceType(),
    metavar="last|OFFSET|TIME|AGE",
    help="First position; last: the end of the last export.  "
    "[default: everything that is not in DIR yet]",
)
@click.option(
    "--until",
    type=BoundType(),
    metavar="OFFSET|TIME|AGE",
    help="End position, exclusive.  [default: the end of what is on the disk]",
)
@click.option(
    "--target-file-size",
    "target_file_bytes",
    type=SIZE,
    default="256MiB",
    callback=_check_target,
    help="Size at which a file ends.",
)
@click.option(
    "--partition-by",
    callback=_check_partitions,
    metavar="day|hour|header:NAME|json:MEMBER[,...]",
    help="Divide files into folders: date=YYYY-MM-DD/ (hour=HH/) by append time, UTC; "
    "NAME=<value>/ by a header or a member of JSON bodies. COLUMN=header:NAME names the folders.",
)
@click.option(
    "--include",
    type=click.Choice(("all", "acked", "unacked")),
    default="all",
    help="Messages to export, by their state in the last checkpoint.",
)
@click.option(
    "--on-corrupt",
    type=click.Choice(("fail", "quarantine")),
    default="fail",
    help="At damage in a log: stop its queue, or put the bytes into _corrupt/ and continue.",
)
@click.option(
    "--allow-data-loss",
    "allows_loss",
    is_flag=True,
    help="Continue after messages removed before their export; records the gap.",
)
@click.option(
    "--master", default="local[*]", help="Master of Spark: local[N], or the URL of a cluster."
)
@click.option(
    "--spark-conf",
    "spark_conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="Spark setting, such as spark.executor.memory=2g; may be repeated.",
)
@store_option
@click.option(
    "--lease/--no-lease",
    "takes_leases",
    default=True,
    help="Whether retention keeps the segments that are being read.",
)
@click.option(
    "--every",
    "every_seconds",
    type=DURATION,
    metavar="DURATION",
    callback=_check_interval,
    help="Repeat the export at this interval, with one Spark, until SIGTERM or Ctrl-C.",
)
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only print what would be done.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write the result as one JSON document; of each round with --every.",
)
@click.option(
    "--print-spark-submit",
    "prints_submit",
    is_flag=True,
    help="Only print a spark-submit command for this export.",
)
@click.pass_context
def export(ctx: click.Context, /, **values: Any) -> int:  # noqa: ANN401
    """Write the messages of queues to files with Spark, one row each.

    Reads the files of the logs, so the server may be running or not. Writes every offset once,
    however often the command runs.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if not values["queues"] and values["pattern"] is None:
        raise click.UsageError("Missing option '--queue' (or '--pattern').")
    if values["queues"] and values["pattern"] is not None:
        raise click.UsageError("write one of --queue and --pattern")
    if values["out"] is None:
        raise click.UsageError("Missing option '--out'.")
    if not values["out"]:
        raise click.UsageError("--out is empty: give a directory or s3://bucket/folder")
    prints_submit = values.pop("prints_submit")
    if values["every_seconds"] is not None:
        _check_every(values, prints_submit=prints_submit)
    if prints_submit:
        _print_spark_submit(ctx, values)
        return 0
    on_corrupt = values.pop("on_corrupt")

    from cli.export_run import ExportOptions, run

    options = ExportOptions(**values, skips_damage=on_corrupt == "quarantine")
    if options.every_seconds is None:
        return run(options)

    from cli.export_rounds import run_rounds

    return run_rounds(options, options.every_seconds)


def _check_every(values: Mapping[str, Any], *, prints_submit: bool) -> None:
    """Refuse options that make no sense with `--every`.

    Raises:
        click.UsageError: There is one.
    """
    if values["is_dry_run"]:
        raise click.UsageError("--dry-run does nothing that --every could repeat; leave one out")
    if prints_submit:
        raise click.UsageError("--print-spark-submit prints one run; leave --every out")
    if values["until"] is not None:
        raise click.UsageError("--until ends an export that --every would go on with; leave it out")
    since = values["since"]
    if since is not None and since.bound is not None and since.bound.is_latest:
        raise click.UsageError(
            "--since latest would begin each round of --every at the end, and export nothing; "
            "write --since last, an offset or a time"
        )


def _print_spark_submit(ctx: click.Context, values: dict[str, Any]) -> None:
    from appendlog.spark.running.packaging import DEPRECATION
    from cli.spark_submit import spark_submit_line

    click.echo(f"warning: {DEPRECATION}", err=True)
    places = str(values["storage_path"]), values["out"]
    click.echo(spark_submit_line(ctx.meta[ARGUMENTS], values["master"], *places))
