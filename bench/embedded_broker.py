"""The command `python -m bench testing`: what a broker inside a test run costs, and its bars."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from amqp_server.testing import Broker
from bench.options import CONTEXT

if TYPE_CHECKING:
    from collections.abc import Callable

_COUNT: Final = 1000
_REPEATS: Final = 50
_MIB: Final = 1 << 20
_ROOT: Final = Path(__file__).resolve().parent.parent
_FIRST: Final = """
import time
from amqp_server.testing import Broker
Broker
begin = time.perf_counter()
with Broker():
    print(time.perf_counter() - begin)
"""
_MEMORY: Final = """
import asyncio, pathlib, re, socket, threading

def resident():
    return int(re.search(r"RssAnon:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])

begin = resident()
from amqp_server.testing import Broker
with Broker() as broker:
    for _ in range(100):
        broker.new_vhost().delete()
    print((resident() - begin) * 1024)
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value and its bar.

    Attributes:
        what: What was measured.
        value: In `unit`.
        bar: The value may be this much at most.
        unit: Unit of both.
    """

    what: str
    value: float
    bar: float
    unit: str

    @property
    def is_kept(self) -> bool:
        """Whether the bar is kept."""
        return self.value <= self.bar


@click.command(context_settings=CONTEXT)
def testing() -> None:
    """Measure the broker inside a test run; the exit status is 1 if it misses a bar."""
    figures = [
        Figure("first broker of a process, after the import", _first_seconds() * 1e3, 150, "ms"),
        Figure("memory with the import", _memory_bytes() / _MIB, 40, "MiB"),
        *_figures_of_one_broker(),
        Figure(f"{_COUNT} brokers, one after the other", _seconds(_use_brokers), 10, "s"),
        Figure("hours of Celery's retries, as a run of pytest", _celery_seconds(), 2, "s"),
    ]
    for figure in figures:
        verdict = "" if figure.is_kept else "  MISSED"
        click.echo(
            f"{figure.what:<46}{figure.value:>9.2f} {figure.unit:<4} bar {figure.bar:g}{verdict}"
        )
    if not all(figure.is_kept for figure in figures):
        sys.exit(1)


def _figures_of_one_broker() -> list[Figure]:
    with Broker() as broker:

        def use_vhost() -> None:
            broker.new_vhost().delete()

        def use_vhosts() -> None:
            for _ in range(_COUNT):
                use_vhost()

        vhost = statistics.median(_seconds(use_vhost) for _ in range(_REPEATS))
        restart = statistics.median(_seconds(broker.restart) for _ in range(_REPEATS))
        return [
            Figure("virtual host, created and deleted", vhost * 1e3, 3, "ms"),
            Figure("restart", restart * 1e3, 100, "ms"),
            Figure(f"{_COUNT} virtual hosts, one after the other", _seconds(use_vhosts), 10, "s"),
        ]


def _use_brokers() -> None:
    for _ in range(_COUNT):
        with Broker():
            pass


def _first_seconds() -> float:
    """Return the seconds of a first start; the median of processes of their own."""
    return statistics.median(float(_run(_FIRST)) for _ in range(5))


def _memory_bytes() -> float:
    return float(_run(_MEMORY))


def _celery_seconds() -> float:
    """Return the seconds of the example project of Celery, with pytest and Celery's imports."""
    project = _ROOT / "docs" / "examples" / "testing" / "celery"
    plugins = ("-p", "no:cacheprovider", "-p", "amqp_server.testing.plugin")
    command = (sys.executable, "-m", "pytest", "-q", "-o", "required_plugins=", *plugins)
    # Without the plugins that are installed here by chance.
    own = {"PYTHONPATH": str(_ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def test() -> None:
        ended = subprocess.run(
            command, cwd=project, env={**os.environ, **own}, capture_output=True, text=True
        )
        if ended.returncode:
            raise click.ClickException(f"the example project of Celery fails:\n{ended.stdout}")

    return statistics.median(_seconds(test) for _ in range(3))


def _run(code: str) -> str:
    command = (sys.executable, "-c", code)
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True).stdout


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
