"""The command `python -m bench management`."""

import json
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from bench.errors import BenchError
from bench.machine import Machine
from bench.management.bars import judge
from bench.management.phase import PhaseFigures
from bench.management.report import phase_lines, to_json
from bench.management.rounds import Plan, measure
from bench.message_body import BODY_BYTES_MAX, BODY_BYTES_MIN
from bench.options import CONTEXT, data_dir_option, json_option

_ALL: Final = "all"
_QUEUES_MAX: Final = 100_000


class _Spread(click.ParamType[int]):
    """A number of queues, or all of them."""

    name = "COUNT|all"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number; the largest one for all."""
        if value == _ALL:
            return _QUEUES_MAX
        try:
            count = int(value)
        except ValueError:
            count = 0
        if not 1 <= count <= _QUEUES_MAX:
            self.fail(f"{value!r} is not a number from 1 to {_QUEUES_MAX}, and not {_ALL}")
        return count


@click.command(context_settings=CONTEXT)
@click.option(
    "--queues", type=click.IntRange(1, _QUEUES_MAX), default=10_000, help="Durable queues."
)
@click.option("--spread", type=_Spread(), default="100", help="Queues that get messages, or `all`.")
@click.option(
    "--rate", type=click.IntRange(1, 1_000_000), default=10_000, help="Messages a second."
)
@click.option(
    "--seconds", type=click.FloatRange(0.1, 600), default=20.0, help="Seconds of each phase."
)
@click.option("--rounds", type=click.IntRange(1, 100), default=3, help="Rounds of two phases.")
@click.option("--pages", type=click.IntRange(0, 100), default=20, help="Open pages.")
@click.option(
    "--body-bytes",
    type=click.IntRange(BODY_BYTES_MIN, BODY_BYTES_MAX),
    default=128,
    help="Size of each body.",
)
@click.option(
    "--warm-up",
    type=click.FloatRange(0, 60),
    default=2.0,
    help="Seconds of load before the first phase.",
)
@data_dir_option("the server's data", tempfile.gettempdir)
@json_option
def management(
    queues: int,
    spread: int,
    rate: int,
    seconds: float,
    rounds: int,
    pages: int,
    body_bytes: int,
    warm_up: float,
    data_dir: Path,
    json_file: Path | None,
) -> None:
    """Measure what users of the HTTP API, the metrics and the page cost the clients of AMQP.

    Each round has two phases with the same load of durable messages: alone, and with the list of
    all queues each second, a scrape of the metrics each 5 seconds, and open pages. The exit status
    is 1 if messages were lost or a run failed; a missed bar is reported, but is no error.
    """
    # The server runs in a session of its own: only this process stops it.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    machine = Machine.inspect()
    click.echo(machine.describe())
    plan = Plan(
        queues=queues,
        spread=min(spread, queues),
        rate_per_second=rate,
        seconds=seconds,
        rounds=rounds,
        pages=pages,
        body_bytes=body_bytes,
        warm_up_seconds=warm_up,
    )
    try:
        measured = measure(plan, data_dir, _show)
    except (BenchError, OSError) as error:
        raise click.ClickException(str(error)) from error
    judged = list(judge(measured))
    click.echo(f"medians of {rounds} rounds:")
    for each in judged:
        click.echo(f"  {each.text}")
    if json_file:
        report = to_json(plan, asdict(machine), measured, judged)
        json_file.write_text(json.dumps(report, indent=1) + "\n")
    if any(phase.lost for phase in measured.phases):
        sys.exit(1)


def _show(title: str, figures: PhaseFigures) -> None:
    for line in phase_lines(title, figures):
        click.echo(line)
