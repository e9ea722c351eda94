"""The brokers that a benchmark can start, by the names that the command line has for them."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bench.our_server import start_our_server
from bench.rabbitmq import start_rabbitmq
from bench.running_broker import RunningBroker
from bench.workloads import Workload

Starter = Callable[[Path, Workload], AbstractContextManager[RunningBroker]]
"""Starts a broker with its data in an empty directory, as a workload asks; stops it at the end."""

OURS: Final = "ours"
OURS_PURE: Final = "ours-pure"
RABBITMQ: Final = "rabbitmq"


def _start_ours(directory: Path, workload: Workload) -> AbstractContextManager[RunningBroker]:
    return start_our_server(OURS, directory, ring_slots=workload.ring_slots)


def _start_ours_pure(directory: Path, workload: Workload) -> AbstractContextManager[RunningBroker]:
    return start_our_server(OURS_PURE, directory, ring_slots=workload.ring_slots, is_pure=True)


def _start_rabbitmq(directory: Path, _: Workload) -> AbstractContextManager[RunningBroker]:
    return start_rabbitmq(RABBITMQ, directory)


STARTERS: Final[Mapping[str, Starter]] = MappingProxyType(
    {OURS: _start_ours, OURS_PURE: _start_ours_pure, RABBITMQ: _start_rabbitmq}
)
