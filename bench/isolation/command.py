"""The command `python -m bench isolation`."""

import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from bench.brokers import OURS, RABBITMQ, STARTERS, installed_brokers
from bench.isolation.attack import Attack
from bench.isolation.attacks import ATTACKS
from bench.isolation.measuring import TimeLimits
from bench.isolation.report import format_head, format_notes, format_row, to_json
from bench.isolation.session import IsolationSession
from bench.machine import IN_MEMORY, Machine, file_system_of
from bench.options import CONTEXT, INTERRUPT_STATUS, Names, data_dir_option, json_option

_FULL_LIMITS: Final = TimeLimits(setup_seconds=300, attack_seconds=120)
_QUICK_LIMITS: Final = TimeLimits(setup_seconds=60, attack_seconds=30)


@click.command(context_settings=CONTEXT)
@click.option("--attacks", type=Names(list(ATTACKS)), help="Attacks to run.  [default: all]")
@click.option(
    "--brokers",
    type=Names(list(STARTERS)),
    help=f"Brokers to start.  [default: {OURS}, and {RABBITMQ} if installed]",
)
@click.option(
    "--runs", type=click.IntRange(1), help="Runs of each attack.  [default: 5; --quick: 1]"
)
@click.option("--quick", is_flag=True, help="Smaller attacks, about ten seconds each.")
@data_dir_option("the servers' data", tempfile.gettempdir)
@json_option
@click.option("--list", "lists_only", is_flag=True, help="Print the attacks without running them.")
def isolation(
    attacks: list[str] | None,
    brokers: list[str] | None,
    runs: int | None,
    quick: bool,
    data_dir: Path,
    json_file: Path | None,
    lists_only: bool,
) -> None:
    """Measure the latencies of two clients while another client attacks the broker.

    Each run of an attack has a fresh broker; the brokers take turns. Figures are medians. The table
    marks missed bars; the exit status is 1 only if an attack failed.
    """
    chosen = [ATTACKS[name] for name in attacks or ATTACKS]
    if lists_only:
        for attack in chosen:
            click.echo(_describe(attack, is_quick=quick))
        return
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    machine = Machine.inspect()
    file_system = file_system_of(data_dir)
    click.echo(f"{machine.describe()}, {file_system}")
    if file_system in IN_MEMORY:
        click.echo(
            "The data directory is in memory, where fsync costs nothing: "
            "choose a disk with --data-dir"
        )
    session = IsolationSession(
        brokers or installed_brokers(),
        runs or (1 if quick else 5),
        data_dir,
        _QUICK_LIMITS if quick else _FULL_LIMITS,
        lambda line: click.echo(line, err=True),
    )
    is_interrupted = False
    try:
        _run(session, chosen, is_quick=quick)
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        click.echo()
        for note in format_notes(session.results):
            click.echo(note)
        if json_file:
            report = to_json(machine, sys.argv, session.results, is_quick=quick)
            json_file.write_text(json.dumps(report, indent=1) + "\n")
    has_failed = any(result.fault for result in session.results)
    sys.exit(INTERRUPT_STATUS if is_interrupted else has_failed)


def _run(session: IsolationSession, attacks: Sequence[Attack], *, is_quick: bool) -> None:
    """Run attacks, and print the rows of each after its runs."""
    click.echo(format_head())
    with session:
        for attack in attacks:
            found = session.run(attack, attack.quick if is_quick else attack.full)
            rabbitmq = next((each for each in found if each.broker == RABBITMQ), None)
            for result in found:
                click.echo(format_row(result, rabbitmq))


def _describe(attack: Attack, *, is_quick: bool) -> str:
    numbers = attack.quick if is_quick else attack.full
    sizes = ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in numbers.items())
    return f"{attack.name}: {attack.summary} ({sizes})"
