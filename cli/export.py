"""The command `amqp-server export`: the messages of queues as files, written by Spark.

Its options only: Spark and Arrow are imported when it runs, so that its help page needs neither.
"""

from pathlib import Path
from typing import Any, Final

import click

from cli.export_bounds import BoundType, SinceType
from cli.export_group import ARGUMENTS, ExportGroup
from cli.parameters import SIZE
from cli.store_options import store_option

KINDS: Final = ("parquet", "jsonl", "jsonl.gz", "jsonl.zst", "delta", "iceberg")
FILE_BYTES_MIN: Final = 1024


def _check_target(ctx: click.Context, param: click.Parameter, value: int) -> int:
    """Refuse a size that would make a file of each message.

    Raises:
        click.BadParameter: It is too small.
    """
    if value < FILE_BYTES_MIN:
        raise click.BadParameter(f"{value} bytes: at least 1KiB; 128MiB to 1GiB is usual")
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

Exit codes: 0 exported, 2 refused, 3 nothing new, 4 offsets are gone from the log, 5 the log is
damaged, 130 interrupted, 1 anything else; of several queues the worst. Running it again exports
what is new.""",
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
    "--pattern", metavar="REGEX", help="Instead of --queue: all whose whole name matches."
)
@click.option("--to", "kind", type=click.Choice(KINDS), default="parquet", help="Kind of output.")
@click.option(
    "--out",
    metavar="DIR|URL",
    help="Where to write: a directory, created when absent, or s3://bucket/folder.  [required]",
)
@click.option(
    "--since",
    type=SinceType(),
    metavar="last|OFFSET|TIME|AGE",
    help="Where to begin; last: where the last export ended.  "
    "[default: everything that is not in DIR yet]",
)
@click.option(
    "--until",
    type=BoundType(),
    metavar="OFFSET|TIME|AGE",
    help="Where to end, exclusive.  [default: all that is safely on the disk]",
)
@click.option(
    "--target-file-size",
    "target_file_bytes",
    type=SIZE,
    default="256MiB",
    callback=_check_target,
    help="A file ends once it has this size.",
)
@click.option(
    "--partition-by",
    type=click.Choice(("day", "hour")),
    help="Folders date=YYYY-MM-DD/ (and hour=HH/) by append time, in UTC.",
)
@click.option(
    "--include",
    type=click.Choice(("all", "acked", "unacked")),
    default="all",
    help="Which messages, as of the last checkpoint.",
)
@click.option(
    "--on-corrupt",
    type=click.Choice(("fail", "quarantine")),
    default="fail",
    help="What damage in a log does: stop its queue, or keep the bytes in _corrupt/ and go on.",
)
@click.option(
    "--allow-data-loss",
    "allows_loss",
    is_flag=True,
    help="Go on where retention took what was not exported; the gap is recorded.",
)
@click.option(
    "--master", default="local[*]", help="Where Spark runs: local[N], or the URL of a cluster."
)
@click.option(
    "--spark-conf",
    "spark_conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting of Spark, such as spark.executor.memory=2g; may be repeated.",
)
@store_option
@click.option(
    "--lease/--no-lease",
    "takes_leases",
    default=True,
    help="Whether retention waits for what is being read.",
)
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only say what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Write the result as one JSON document.")
@click.option(
    "--print-spark-submit",
    "prints_submit",
    is_flag=True,
    help="Only print the command that has spark-submit do it, with our code for the workers.",
)
@click.pass_context
def export(ctx: click.Context, /, **values: Any) -> int:  # noqa: ANN401
    """Write the messages of queues to files with Spark, one row each.

    Reads the logs' files: the server is not asked, and may run or not. Every offset is
    written once, however often the command runs.
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
