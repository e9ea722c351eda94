"""Queues, exchange and bindings of a traffic row; deleted afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench import requests
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.publisher import PUBLISH_CHANNEL
from bench.traffic.shape import binding_keys


@dataclass(frozen=True, slots=True)
class Topology:
    """Queues that one exchange leads to.

    Attributes:
        queues: Names of the queues.
        exchange: Name of the exchange.
        kind: Type of the exchange: topic, with the bindings of `shape`; fanout; direct, with the
            queues' names as keys.
        is_durable: Whether queues and exchange are durable.
    """

    queues: tuple[str, ...]
    exchange: str = "bench-traffic"
    kind: str = "topic"
    is_durable: bool = True

    @contextmanager
    def declared(self, url: BrokerUrl) -> Iterator[Connection]:
        """Declare all of it, empty, and return the connection; delete it at the end of the `with`.

        Raises:
            OSError: The broker cannot be reached.
            BenchError: The broker refuses.
        """
        with Connection(url, PUBLISH_CHANNEL) as connection:
            channel = connection.channel
            delete = [requests.delete_queue(channel, queue) for queue in self.queues]
            delete.append(requests.delete_exchange(channel, self.exchange))
            durable = self.is_durable
            connection.ask_one_by_one(
                [
                    *delete,
                    requests.declare_exchange(channel, self.exchange, self.kind, durable=durable),
                    *(
                        requests.declare_queue(channel, name, durable=durable)
                        for name in self.queues
                    ),
                ]
            )
            connection.ask_pipelined(
                [
                    requests.bind_queue(channel, queue, self.exchange, key)
                    for at, queue in enumerate(self.queues)
                    for key in self._keys(at)
                ]
            )
            yield connection
            connection.ask_one_by_one(delete)
            connection.close()

    def _keys(self, at: int) -> list[str]:
        if self.kind == "topic":
            return binding_keys(at)
        return [""] if self.kind == "fanout" else [self.queues[at]]
