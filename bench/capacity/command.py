"""The command `python -m bench capacity`."""

import json
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from bench.capacity.figures import Figure, Plan, measure
from bench.errors import BenchError
from bench.machine import Machine
from bench.options import CONTEXT, data_dir_option, json_option

_ELSEWHERE: Final = (
    "LOST 0. At full speed a message costs what `python -m bench traffic --rows "
    "single-writes,confirm-each,fanout-varied,bodies-64k` measures."
)


@click.command(context_settings=CONTEXT)
@click.option(
    "--connections", type=click.IntRange(1, 50_000), default=1000, help="Connections to open."
)
@click.option("--queues", type=click.IntRange(1, 100_000), default=2000, help="Durable queues.")
@click.option(
    "--waiting",
    type=click.IntRange(10_000),
    default=2_000_000,
    help="Messages that wait in one queue.",
)
@click.option(
    "--rate",
    type=click.IntRange(1, 100_000),
    default=1000,
    help="Messages a second that come one at a time.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 600),
    default=5.0,
    help="Seconds of each measurement of the processor.",
)
@data_dir_option("the servers' data", tempfile.gettempdir)
@json_option
def capacity(
    connections: int,
    queues: int,
    waiting: int,
    rate: int,
    seconds: float,
    data_dir: Path,
    json_file: Path | None,
) -> None:
    """Measure what `amqp-server size` multiplies, beside the constants that it has.

    Memory, disk and open files of a connection, a queue and a message, and the processor time of
    messages that come one at a time. The exit status is 1 if a message was lost.
    """
    # The servers run in sessions of their own: only this process stops them.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    machine = Machine.inspect()
    click.echo(machine.describe())
    plan = Plan(connections, queues, waiting, rate, seconds, data_dir)
    click.echo(f"{'constant':44}{'measured':>14}{'model':>14}  unit")
    figures: list[Figure] = []
    try:
        for each in measure(plan):
            click.echo(_line(each))
            figures.append(each)
    except (BenchError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(_ELSEWHERE)
    if json_file:
        report = {"machine": asdict(machine), "figures": [asdict(each) for each in figures]}
        json_file.write_text(json.dumps(report, indent=1) + "\n")


def _line(figure: Figure) -> str:
    model = "-" if figure.model is None else f"{figure.model:,.1f}"
    return f"{figure.name:44}{figure.measured:>14,.1f}{model:>14}  {figure.unit}"
