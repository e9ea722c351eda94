"""The brokers that a benchmark can start, by the names that the command line has for them."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bench.our_server import start_our_server
from bench.rabbitmq import start_rabbitmq
from bench.running_broker import RunningBroker

Starter = Callable[[Path, int | None], AbstractContextManager[RunningBroker]]
"""Starts a broker with its data in an empty directory, and stops it at the end.

The number is that of the slots of each queue's ring, for a server of ours; None for its default.
"""

OURS: Final = "ours"
OURS_PURE: Final = "ours-pure"
RABBITMQ: Final = "rabbitmq"


def _start_ours(directory: Path, ring_slots: int | None) -> AbstractContextManager[RunningBroker]:
    return start_our_server(OURS, directory, ring_slots=ring_slots)


def _start_ours_pure(
    directory: Path, ring_slots: int | None
) -> AbstractContextManager[RunningBroker]:
    return start_our_server(OURS_PURE, directory, ring_slots=ring_slots, is_pure=True)


def _start_rabbitmq(directory: Path, _: int | None) -> AbstractContextManager[RunningBroker]:
    return start_rabbitmq(RABBITMQ, directory)


STARTERS: Final[Mapping[str, Starter]] = MappingProxyType(
    {OURS: _start_ours, OURS_PURE: _start_ours_pure, RABBITMQ: _start_rabbitmq}
)
