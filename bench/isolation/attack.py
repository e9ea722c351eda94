"""What an attack is: what one client does, while others measure what they notice of it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from bench.broker_url import BrokerUrl
from bench.isolation.client import Client


class Stage:
    """What an attack works with: the broker, and clients of its own.

    Its clients live until the end of its `with`, which comes after the measurement.

    Args:
        url: The broker.
        seconds_max: Longest time without an answer.

    Attributes:
        attacker: A client, connected.
        watcher: Another one, for questions about the broker's state.
        began_ns: When the attack began (`time.monotonic_ns`); 0 before.
    """

    def __init__(self, url: BrokerUrl, seconds_max: float) -> None:
        self.began_ns = 0
        self._url = url
        self._seconds_max = seconds_max
        self._stack = ExitStack()
        self.attacker = self.connect()
        self.watcher = self.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def connect(self) -> Client:
        """Connect one more client."""
        client = Client(self._url, self._seconds_max)
        self._stack.callback(client.lose)
        return client

    def begin(self) -> None:
        """Take this moment for the begin of the attack."""
        self.began_ns = time.monotonic_ns()


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    Attributes:
        name: What it is called on the command line and in reports.
        summary: What one client does, in a line.
        run: Sets up to its `yield`; the rest is the attack, and returns when its end is observed.
            It gets the numbers of `full` or `quick` by name.
        full: Its numbers.
        quick: Smaller ones, for a few seconds with setup and control.
        bytes_per_sync: How much the control writes between two syncs of its file.
        is_timed: Whether its duration says something about the broker.
    """

    name: str
    summary: str
    run: Callable[..., Iterator[None]]
    full: Mapping[str, int]
    quick: Mapping[str, int]
    bytes_per_sync: int = 65_536
    is_timed: bool = True
