"""What a start of the server imports: modules, and the time of those that take the longest."""

import re
import statistics
import subprocess
import sys
from typing import Final, NamedTuple

import click

_MODULE: Final = "amqp_server.server_process"
"""Imports everything that a server needs before it listens."""
_LINE: Final = re.compile(r"^import time:\s*(\d+) \|\s*(\d+) \|\s+(\S+)$", re.MULTILINE)


class _Import(NamedTuple):
    """One module.

    Attributes:
        own_us: Its own time, in microseconds.
        all_us: The same with the modules that it is the first to import.
        name: Its name.
    """

    own_us: int
    all_us: int
    name: str


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=5, help="Processes; medians count.")
@click.option("--longest", type=click.IntRange(0), default=20, help="Modules to print.")
def benchmark(rounds: int, longest: int) -> None:
    """Show what a start imports, and how long that takes (python -X importtime)."""
    found = [_imports() for _ in range(rounds)]
    seconds = statistics.median(sum(each.own_us for each in imports) for imports in found) / 1e6
    ours = sum(each.name.startswith("amqp_server.") for each in found[0])
    click.echo(f"imports of a start: {len(found[0])} modules, {ours} of them ours, {seconds:.3f} s")
    last = sorted(found[-1], key=lambda each: -each.all_us)
    for each in last[:longest]:
        click.echo(f"{each.all_us / 1e3:8.1f} ms {each.own_us / 1e3:8.1f} ms  {each.name}")


def _imports() -> list[_Import]:
    """Return the imports of one process."""
    command = [sys.executable, "-X", "importtime", "-c", f"import {_MODULE}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if ended.returncode:
        raise click.ClickException(f"{_MODULE} is not imported: {ended.stderr.splitlines()[-1]}")
    return [_Import(int(own), int(all_), name) for own, all_, name in _LINE.findall(ended.stderr)]
