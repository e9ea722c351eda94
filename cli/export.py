"""The command `amqp-server export`: has Spark write the messages of queues to files.

This module only has the options. Spark and Arrow are imported when the command runs, so that its
help page needs neither.
"""

from pathlib import Path
from typing import Any, Final

import click

from cli.export_bounds import BoundType, SinceType
from cli.export_group import ARGUMENTS, ExportGroup
from cli.store_options import store_option
from cli.units import SIZE

KINDS: Final = ("parquet", "jsonl", "jsonl.gz", "jsonl.zst", "delta", "iceberg")
FILE_BYTES_MIN: Final = 1024


def _check_target(ctx: click.Context, param: click.Parameter, value: int) -> int:
    """Refuse a size that would make a file for each message.

    Raises:
        click.BadParameter: The size is too small.
    """
    if value < FILE_BYTES_MIN:
        raise click.BadParameter(f"{value} bytes: write at least 1KiB; 128MiB to 1GiB is usual")
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

Exit codes: 0 exported, 2 refused, 3 nothing new, 4 the log has lost offsets, 5 the log is damaged,
130 interrupted, 1 anything else; the worst code of several queues. Another run exports what is
new.""",
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
    type=click.Choice(("day", "hour")),
    help="Write to folders date=YYYY-MM-DD/ (and hour=HH/) by append time, UTC.",
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
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only print what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Write the result as one JSON document.")
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
    if values.pop("prints_submit"):
        _print_spark_submit(ctx, values)
        return 0
    on_corrupt = values.pop("on_corrupt")

    from cli.export_run import ExportOptions, run

    return run(ExportOptions(**values, skips_damage=on_corrupt == "quarantine"))


def _print_spark_submit(ctx: click.Context, values: dict[str, Any]) -> None:
    from appendlog.spark.running.packaging import DEPRECATION
    from cli.spark_submit import spark_submit_line

    click.echo(f"warning: {DEPRECATION}", err=True)
    places = str(values["storage_path"]), values["out"]
    click.echo(spark_submit_line(ctx.meta[ARGUMENTS], values["master"], *places))
