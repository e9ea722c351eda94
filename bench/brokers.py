"""The brokers that a benchmark can start, by their names on the command line."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from bench.our_server import start_our_server
from bench.rabbitmq import is_rabbitmq_installed, start_rabbitmq
from bench.running_broker import RunningBroker

Starter = Callable[[Path, int | None], AbstractContextManager[RunningBroker]]
"""Starts a broker with its data in an empty directory, and stops it at the end of the `with`.

The number is the value of `--ring-size` for a server of ours; None for its default.
"""

OURS: Final = "ours"
OURS_PURE: Final = "ours-pure"
RABBITMQ: Final = "rabbitmq"

STARTERS: Final[Mapping[str, Starter]] = MappingProxyType(
    {
        OURS: lambda path, slots: start_our_server(OURS, path, ring_slots=slots),
        OURS_PURE: lambda path, slots: start_our_server(
            OURS_PURE, path, ring_slots=slots, is_pure=True
        ),
        RABBITMQ: lambda path, _: start_rabbitmq(RABBITMQ, path),
    }
)


def installed_brokers() -> list[str]:
    """Return ours and, if it is installed, RabbitMQ; print a line if it is not."""
    if is_rabbitmq_installed():
        return [OURS, RABBITMQ]
    click.echo("RabbitMQ is not installed: the figures of ours are not compared with it", err=True)
    return [OURS]
