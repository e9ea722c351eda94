"""The command `python -m bench traffic`."""

import json
import secrets
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from bench.brokers import OURS, RABBITMQ, STARTERS, installed_brokers
from bench.errors import BenchError
from bench.machine import IN_MEMORY, Machine, file_system_of
from bench.options import CONTEXT, INTERRUPT_STATUS, Names, data_dir_option, json_option
from bench.traffic.kernel_build import compile_kernel
from bench.traffic.row import TrafficEffort, TrafficRow

_FULL: Final = TrafficEffort(seconds=5.0, warm_up_seconds=1.0, share=1.0, seed=0)
_QUICK: Final = TrafficEffort(seconds=1.0, warm_up_seconds=0.3, share=0.1, seed=0)
_SEED_BITS: Final = 48


@click.command(context_settings=CONTEXT)
@click.option(
    "--rows", help="Rows to measure, or `native`, comma-separated.  [default: all but native]"
)
@click.option("--native", "with_native", is_flag=True, help="Measure the native clients too.")
@click.option(
    "--brokers",
    type=Names(list(STARTERS)),
    help=f"Brokers to start.  [default: {OURS}, and {RABBITMQ} if installed]",
)
@click.option("--runs", type=click.IntRange(1), help="Runs of each row.  [default: 3; --quick: 1]")
@click.option("--quick", is_flag=True, help="Short runs: rough figures in a few minutes.")
@click.option("--seconds", type=click.FloatRange(0.1), help="Seconds of a run.  [default: 5]")
@click.option(
    "--seed",
    type=click.IntRange(0, (1 << _SEED_BITS) - 1),
    help="Seed of the messages.  [default: a new one, printed]",
)
@data_dir_option("the servers' data", tempfile.gettempdir)
@json_option
@click.option("--list", "lists_only", is_flag=True, help="Print the rows without running them.")
def traffic(
    rows: str | None,
    with_native: bool,
    brokers: list[str] | None,
    runs: int | None,
    quick: bool,
    seconds: float | None,
    seed: int | None,
    data_dir: Path,
    json_file: Path | None,
    lists_only: bool,
) -> None:
    """Measure brokers with real traffic: no two messages are alike.

    Each message has its own size, headers, ids and, in some rows, routing key. The brokers take
    turns run by run; figures are medians. The exit status is 1 if a figure does not count: messages
    were lost, repeated, corrupt or out of order, or a run failed.
    """
    # The kernel is compiled before the modules that choose it are imported.
    try:
        compile_kernel()
    except BenchError as error:
        click.echo(f"{error}: it runs interpreted, and is slower than the broker", err=True)
    from bench.traffic.found_rows import ROWS
    from bench.traffic.frames import COMPILED
    from bench.traffic.report import format_head, format_notes, format_row, to_json
    from bench.traffic.session import TrafficSession

    chosen = _choose(ROWS, rows, with_native=with_native)
    if lists_only:
        for row in chosen:
            click.echo(f"{row.key}: {row.title}")
        return
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    machine, file_system = Machine.inspect(), file_system_of(data_dir)
    seed = secrets.randbits(_SEED_BITS) if seed is None else seed
    click.echo(f"{machine.describe()}, {file_system}, seed {seed}")
    if file_system in IN_MEMORY:
        click.echo(
            "The data directory is in memory, where fsync costs nothing: "
            "choose a disk with --data-dir"
        )
    effort = _QUICK if quick else _FULL
    session = TrafficSession(
        brokers or installed_brokers(),
        runs or (1 if quick else 3),
        seed,
        TrafficEffort(seconds or effort.seconds, effort.warm_up_seconds, effort.share, seed),
        data_dir,
        keeps_brokers=quick,
        say=lambda line: click.echo(line, err=True),
    )
    is_interrupted = False
    click.echo(format_head())
    try:
        with session:
            for row in chosen:
                click.echo(format_row(session.run(row)))
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        click.echo()
        for note in format_notes(session.results, seed):
            click.echo(note)
        if json_file:
            report = to_json(
                machine,
                file_system,
                sys.argv,
                seed,
                session.results,
                is_quick=quick,
                is_compiled=COMPILED,
            )
            json_file.write_text(json.dumps(report, indent=1) + "\n")
    is_wrong = any(result.is_wrong for result in session.results)
    sys.exit(INTERRUPT_STATUS if is_interrupted else is_wrong)


def _choose(
    rows: Sequence[TrafficRow], names: str | None, *, with_native: bool
) -> list[TrafficRow]:
    """Return the rows of these names, keys or families."""
    if names is None:
        return [row for row in rows if with_native or row.family != "native"]
    wanted = {name.strip() for name in names.split(",") if name.strip()}
    known = {row.key for row in rows} | {row.family for row in rows}
    if unknown := sorted(wanted - known):
        raise click.BadParameter(
            f"{', '.join(unknown)}; there are {', '.join(sorted(known))}", param_hint="--rows"
        )
    if with_native:
        wanted.add("native")
    return [row for row in rows if {row.key, row.family} & wanted]
