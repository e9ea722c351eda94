"""The command `python -m bench page`."""

import json
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import click

from bench import requests
from bench.connection import Connection
from bench.errors import BenchError
from bench.machine import Machine
from bench.management.managed_server import ManagedServer, start_managed_server
from bench.management.rounds import queue_names
from bench.options import CONTEXT, data_dir_option, json_option

PAINT_SECONDS_MAX: Final = 1.0
"""Bar: from the navigation until the first rows are shown."""
FILTER_SECONDS_MAX: Final = 0.1
"""Bar: from the input of a text until its only row is shown."""
PROGRAMS: Final = ("chromium", "google-chrome")
_REPOSITORY: Final = Path(__file__).parent.parent.parent
_PACKAGES: Final = _REPOSITORY / "tests" / "management" / "page"
_SCRIPT: Final = Path(__file__).with_name("in_chromium.mjs")
_SECONDS_MAX: Final = 300
_CHANNEL: Final = 1


def what_is_missing() -> str:
    """Return what this machine lacks for the measurement; empty if it has everything."""
    if find_chromium() is None:
        return "Chromium is not installed: apt-get install chromium"
    if shutil.which("node") is None:
        return "Node.js is not installed: apt-get install nodejs"
    if not (_PACKAGES / "node_modules" / "puppeteer-core").is_dir():
        return "puppeteer-core is not installed: npm ci in tests/management/page"
    return ""


def find_chromium() -> str | None:
    """Return the path of Chromium; None if it is not installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def measure_page(server: ManagedServer, rounds: int, needle: str) -> dict[str, list[float]]:
    """Return the times in seconds: `paint` until rows are shown, `filter` until one is left.

    Args:
        server: Server with the queues.
        rounds: How often each is measured.
        needle: Text that the name of one queue has.

    Raises:
        BenchError: The page did not show what it should.
    """
    environment = os.environ | {
        "PAGE_URL": server.url,
        "CHROMIUM": find_chromium() or "",
        "ROUNDS": str(rounds),
        "NEEDLE": needle,
        "PACKAGES": str(_PACKAGES),
    }
    try:
        done = subprocess.run(
            ["node", str(_SCRIPT)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"Chromium took more than {_SECONDS_MAX} s") from error
    if done.returncode:
        raise BenchError(f"Chromium: {done.stderr.strip()[-500:]}")
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return {
        "paint": [each / 1000 for each in found["paints"]],
        "filter": [each / 1000 for each in found["filters"]],
    }


@click.command(context_settings=CONTEXT)
@click.option("--queues", type=click.IntRange(2, 100_000), default=10_000, help="Queues.")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, help="How often to measure.")
@data_dir_option("the server's data", tempfile.gettempdir)
@json_option
def page(queues: int, rounds: int, data_dir: Path, json_file: Path | None) -> None:
    """Measure how fast the page shows and filters many queues, in Chromium.

    Without Chromium, Node.js or their packages it says what is missing, and measures nothing. A
    missed bar is reported, but is no error.
    """
    if missing := what_is_missing():
        click.echo(f"skipped: {missing}")
        return
    machine = Machine.inspect()
    click.echo(machine.describe())
    try:
        with (
            tempfile.TemporaryDirectory(
                prefix="bench-", dir=data_dir, ignore_cleanup_errors=True
            ) as directory,
            start_managed_server(Path(directory)) as server,
        ):
            names = queue_names(queues)
            with Connection(server.amqp_url, _CHANNEL) as connection:
                connection.ask_pipelined(
                    [requests.declare_queue(_CHANNEL, name, durable=False) for name in names]
                )
                connection.close()
            times = measure_page(server, rounds, names[queues // 2])
    except (BenchError, OSError) as error:
        raise click.ClickException(str(error)) from error
    rows = list(_judged(times))
    click.echo(f"{queues} queues, medians of {rounds} rounds:")
    for row in rows:
        verdict = "ok" if row["seconds"] <= row["bar_seconds"] else "missed"
        bar = f"{row['bar_seconds'] * 1000:.0f} ms"
        click.echo(f"  {row['what']}: {row['seconds'] * 1000:.0f} ms (bar {bar}): {verdict}")
    if json_file:
        report = {"queues": queues, "rounds": rounds, "rows": rows, "times": times}
        json_file.write_text(json.dumps(report, indent=1) + "\n")


def _judged(times: dict[str, list[float]]) -> list[dict[str, Any]]:
    return [
        {"what": what, "seconds": statistics.median(times[key]), "bar_seconds": bar}
        for what, key, bar in (
            ("first rows", "paint", PAINT_SECONDS_MAX),
            ("filter", "filter", FILTER_SECONDS_MAX),
        )
    ]
