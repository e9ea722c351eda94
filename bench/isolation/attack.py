"""An attack: the work that one client gives the broker while other clients measure latencies."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from bench.broker_url import BrokerUrl
from bench.isolation.client import Client


class Stage:
    """The clients of an attack, which stay connected until the end of its `with`.

    The `with` ends after the measurement.

    Args:
        url: The broker.
        seconds_max: Longest time without an answer.

    Attributes:
        url: The broker.
        seconds_max: Longest time without an answer.
        attacker: Client that attacks.
        watcher: Client that asks for the broker's state.
        began_ns: Start of the attack (`time.monotonic_ns`); 0 before.
    """

    def __init__(self, url: BrokerUrl, seconds_max: float) -> None:
        self.began_ns = 0
        self.url = url
        self.seconds_max = seconds_max
        self._stack = ExitStack()
        self.attacker = self.connect()
        self.watcher = self.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def connect(self) -> Client:
        """Connect another client."""
        client = Client(self.url, self.seconds_max)
        self._stack.callback(client.lose)
        return client

    def begin(self) -> None:
        """Set the start of the attack to this moment."""
        self.began_ns = time.monotonic_ns()


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    Attributes:
        name: Name on the command line and in reports.
        summary: Description of the attack, in one line.
        run: Generator with one `yield`: before it the setup, after it the attack. Returns when the
            end of the attack is observed. Gets the numbers of `full` or `quick` by name.
        full: Numbers of a full attack.
        quick: Smaller numbers, for a few seconds with setup and control.
        bytes_per_sync: Bytes that the control writes between two syncs of its file.
        is_timed: Whether the attack's duration depends on the broker.
    """

    name: str
    summary: str
    run: Callable[..., Iterator[None]]
    full: Mapping[str, int]
    quick: Mapping[str, int]
    bytes_per_sync: int = 65_536
    is_timed: bool = True
