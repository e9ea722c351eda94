"""The command `python -m bench table`."""

import signal
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import click

from bench.brokers import OURS, OURS_PURE, RABBITMQ, STARTERS, installed_brokers
from bench.options import CONTEXT, INTERRUPT_STATUS, Names, data_dir_option, json_option
from bench.table.experiment import FULL, QUICK_EFFORT
from bench.table.measuring import INTERRUPTED, OVER_TIME, SIZES, TableMeasuring
from bench.table.picture import draw
from bench.table.results_files import write_all, write_json
from bench.table.rows import ROWS


@click.command(context_settings=CONTEXT)
@click.option(
    "--rows",
    type=Names([*(row.key for row in ROWS), SIZES, OVER_TIME]),
    help="Rows to measure.  [default: all; with --quick, no curves]",
)
@click.option(
    "--brokers",
    type=Names(list(STARTERS)),
    help=f"Brokers to start.  [default: {OURS}, {RABBITMQ} if installed, and {OURS_PURE} without "
    "--quick]",
)
@click.option("--runs", type=click.IntRange(1), help="Runs of each row.  [default: 3; --quick: 1]")
@click.option("--quick", is_flag=True, help="All rows in two minutes: rough figures, not judged.")
@data_dir_option("the servers' data", tempfile.gettempdir)
@json_option
@click.option(
    "--png",
    "png_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="File for the picture; requires matplotlib.",
)
@click.option(
    "--results",
    "results_directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for JSON, text and picture, named by date and commit.",
)
def table(
    rows: list[str] | None,
    brokers: list[str] | None,
    runs: int | None,
    quick: bool,
    data_dir: Path,
    json_file: Path | None,
    png_file: Path | None,
    results_directory: Path | None,
) -> None:
    """Measure the rows of the benchmark table beside RabbitMQ, and judge their bars.

    The brokers take turns run by run; figures are medians. The exit status is 1 if a figure does
    not count: messages were lost, a run failed, or other programs used too much CPU. A missed bar
    is reported, but is no error.
    """
    if (png_file or results_directory) and not find_spec("matplotlib"):
        raise click.UsageError("the picture requires matplotlib: pip install matplotlib")
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    measuring = TableMeasuring(
        data_dir,
        QUICK_EFFORT if quick else FULL,
        brokers or installed_brokers() + ([] if quick else [OURS_PURE]),
        runs or (1 if quick else 3),
        rows or [row.key for row in ROWS] + ([] if quick else [SIZES, OVER_TIME]),
    )
    try:
        measuring.run()
    finally:
        report = measuring.finish()
        if json_file:
            write_json(report, json_file)
        if png_file:
            draw(report, png_file)
        if results_directory:
            for file in write_all(report, results_directory):
                click.echo(str(file))
    sys.exit(INTERRUPT_STATUS if INTERRUPTED in report.faults else not report.counts)
