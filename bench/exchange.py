"""The exchange of a workload, with its bindings; deleted afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench import requests
from bench.connection import Connection


@dataclass(frozen=True, slots=True)
class Exchange:
    """A transient exchange and its bindings.

    Attributes:
        name: Name of the exchange.
        kind: Type of the exchange: fanout, topic, direct.
        bindings: Names of existing queues, each with its binding key.
    """

    name: str
    kind: str
    bindings: tuple[tuple[str, str], ...]

    @contextmanager
    def declared(self, connection: Connection) -> Iterator[None]:
        """Declare and bind the exchange; delete it at the end of the `with`.

        Raises:
            BenchError: The broker refuses.
        """
        channel = connection.channel
        delete = requests.delete_exchange(channel, self.name)
        declare = requests.declare_exchange(channel, self.name, self.kind, durable=False)
        connection.ask_one_by_one([delete, declare])
        connection.ask_pipelined(
            [requests.bind_queue(channel, queue, self.name, key) for queue, key in self.bindings]
        )
        yield
        connection.ask(delete)
