"""The command `python -m bench logins`."""

import json
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from http.client import HTTPConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from bench.errors import BenchError
from bench.logins.bars import Answered, Judged, judge
from bench.logins.strangers import SilentBackend, Strangers
from bench.machine import Machine
from bench.management.managed_server import start_managed_server
from bench.options import CONTEXT, data_dir_option, json_option

PAUSE_SECONDS: Final = 0.05
"""Pause between two requests of the user."""
_GUEST: Final = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
_WARM_UP_REQUESTS: Final = 20
_ATTACKS: Final = ("wrong passwords", "silent back end")


@click.command(context_settings=CONTEXT)
@click.option(
    "--connections", type=click.IntRange(1, 5000), default=200, help="Connections of strangers."
)
@click.option(
    "--seconds", type=click.FloatRange(0.1, 600), default=20.0, help="Seconds of each phase."
)
@data_dir_option("the server's data", tempfile.gettempdir)
@json_option
def logins(connections: int, seconds: float, data_dir: Path, json_file: Path | None) -> None:
    """Measure how long a user of the HTTP API waits while strangers try passwords.

    The user has logged in before, and asks for /api/overview again and again: alone, then while
    strangers try passwords on many connections; once more with an authentication back end that
    never answers, behind the server's own users. The exit status is 1 if a bar is missed.
    """
    # The server runs in a session of its own: only this process stops it.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    machine = Machine.inspect()
    click.echo(machine.describe())
    judged: list[Judged] = []
    try:
        for attack in _ATTACKS:
            judged += _measure(attack, connections, seconds, data_dir)
    except (BenchError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for each in judged:
        click.echo(each.text)
    if json_file:
        found = {"machine": asdict(machine), "bars": [each.to_json() for each in judged]}
        json_file.write_text(json.dumps(found, indent=1) + "\n")
    if not all(each.is_reached for each in judged):
        sys.exit(1)


def _measure(attack: str, connections: int, seconds: float, data_dir: Path) -> list[Judged]:
    with ExitStack() as opened:
        directory = opened.enter_context(
            tempfile.TemporaryDirectory(prefix="amqp-bench-logins-", dir=data_dir)
        )
        options: tuple[str, ...] = ()
        if attack == _ATTACKS[1]:
            backend = opened.enter_context(SilentBackend())
            options = ("--auth-backends", "internal,http")
            for each in ("user", "vhost", "resource", "topic"):
                options += (f"--auth-http-{each}-path", backend.url)
        server = opened.enter_context(start_managed_server(Path(directory), options))
        _ask(server.url, _WARM_UP_REQUESTS)
        alone = _answered(server.url, seconds)
        with Strangers(server.url, connections) as strangers:
            attacked = _answered(server.url, seconds)
        server.check_processes()
    click.echo(f"{attack}, {connections} connections")
    click.echo(f"  alone     {alone.text}")
    click.echo(f"  attacked  {attacked.text}")
    counts = ", ".join(f"{count} x {status}" for status, count in sorted(strangers.answers.items()))
    click.echo(f"  strangers were answered {counts or 'nothing'}")
    return list(judge(attack, alone, attacked))


def _answered(url: str, seconds: float) -> Answered:
    until = time.perf_counter() + seconds
    found: list[float] = []
    while time.perf_counter() < until:
        found += _ask(url, 1)
        time.sleep(PAUSE_SECONDS)
    return Answered(tuple(found))


def _ask(url: str, count: int) -> list[float]:
    """Return the seconds that some requests took, each on a connection of its own."""
    parts = urlsplit(url)
    found = []
    for _ in range(count):
        began = time.perf_counter()
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        connection.request("GET", "/api/overview", headers=_GUEST)
        response = connection.getresponse()
        response.read()
        connection.close()
        if response.status != 200:
            raise BenchError(f"the user got {response.status}")
        found.append(time.perf_counter() - began)
    return found
