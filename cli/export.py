"""The command `amqp-server export`: the messages of a queue as files, written by Spark.

Its options only: Spark and Arrow are imported when it runs, so that its help page needs neither.
"""

from pathlib import Path
from typing import Final

import click

from cli.export_group import ExportGroup

FORMATS: Final = ("parquet",)


@click.group(
    cls=ExportGroup,
    invoke_without_command=True,
    epilog=(
        "Exit codes: 0 exported, 2 refused, 3 nothing new, 4 offsets are gone from the log, "
        "5 the log is damaged, 1 anything else. Running it again exports what is new."
    ),
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--storage-path",
    type=click.Path(path_type=Path),
    default="./data",
    envvar="AMQP_SERVER_STORAGE_PATH",
    help="Data directory of the server, which may be running.",
)
@click.option("--vhost", default="/", help="Virtual host of the queue.")
@click.option("--queue", help="Durable queue to export.  [required]")
@click.option("--to", "to", type=click.Choice(FORMATS), default="parquet", help="Kind of files.")
@click.option("--out", metavar="DIR", help="Where to write; created when absent.  [required]")
@click.option(
    "--since",
    type=click.IntRange(min=0),
    help="First offset.  [default: everything that is not in DIR yet]",
)
@click.option(
    "--until",
    type=click.IntRange(min=0),
    help="End of the offsets, exclusive.  [default: all that is safely on the disk]",
)
@click.option(
    "--master", default="local[*]", help="Where Spark runs: local[N], or the URL of a cluster."
)
@click.pass_context
def export(
    ctx: click.Context,
    storage_path: Path,
    vhost: str,
    queue: str | None,
    to: str,
    out: str | None,
    since: int | None,
    until: int | None,
    master: str,
) -> int:
    """Write the messages of a queue to files with Spark, one row each.

    Reads the log's files: the server is not asked, and may run or not. Every offset is
    written once, however often the command runs.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    assert to in FORMATS
    for option, value in (("--queue", queue), ("--out", out)):
        if value is None:
            raise click.UsageError(f"Missing option '{option}'.")
    assert queue is not None
    assert out is not None

    from cli.export_run import run

    return run(storage_path, vhost, queue, out, since, until, master)
