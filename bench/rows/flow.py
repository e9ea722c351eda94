"""Publishing and consuming at once, over several queues: what one run of it gave."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.process_stats import ServerProbe
from bench.publisher import PUBLISH_CHANNEL
from bench.rows.counting import CountOrder, CountResult, count_deliveries
from bench.running_broker import RunningBroker
from bench.worker import Counters, StartLine
from bench.workers import Workers


class Sent(Protocol):
    """What every publisher's result says; see `bench.publisher.PublishResult`."""

    @property
    def published(self) -> int:
        """Messages sent."""

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC before the first byte."""

    @property
    def cpu_seconds(self) -> float:
        """CPU that the publisher used."""


_Order = TypeVar("_Order")
_Sent = TypeVar("_Sent", bound=Sent)


@dataclass(frozen=True, slots=True)
class Flow(Generic[_Sent]):
    """One run.

    Attributes:
        sent: What the publishers did.
        seen: What the consumers saw.
        lost: Deliveries that are missing, and messages that were left in a queue.
        server_cpu_seconds: CPU of the server; None when it is not known.
        others_cores: Cores busy with neither server nor generator; None when it is not known.
    """

    sent: _Sent
    seen: CountResult
    lost: int
    server_cpu_seconds: float | None
    others_cores: float | None

    @property
    def received(self) -> int:
        """Deliveries of all queues."""
        return sum(self.seen.received)

    @property
    def deliveries_per_second(self) -> float:
        """All deliveries, from the first publish to the last of them."""
        elapsed_seconds = (self.seen.end_ns - self.sent.start_ns) / 1e9
        return self.received / elapsed_seconds if elapsed_seconds > 0 else 0.0

    def details(self) -> dict[str, float | int | None]:
        """Give what is worth keeping of each run."""
        return {
            "published": self.sent.published,
            "received": self.received,
            "server_cpu_seconds": self.server_cpu_seconds,
            "publisher_cpu_seconds": self.sent.cpu_seconds,
            "consumer_cpu_seconds": self.seen.cpu_seconds,
        }


@contextmanager
def clean_queues(
    url: BrokerUrl, queues: Sequence[str], *, durable: bool = False
) -> Iterator[Connection]:
    """Give empty queues, with the connection that declared them; they are gone afterwards.

    Args:
        url: The broker.
        queues: Their names; what has one of them is deleted before.
        durable: Whether they are.
    """
    with Connection(url, PUBLISH_CHANNEL) as connection:
        for queue in queues:
            connection.delete_queue(queue)
            connection.declare_queue(queue, durable)
        yield connection
        for queue in queues:
            connection.delete_queue(queue)
        connection.close()


def run_flow(
    broker: RunningBroker,
    declaring: Connection,
    publish: Callable[[StartLine, _Order, Counters], _Sent],
    publish_order: _Order,
    count_order: CountOrder,
    *,
    copies: int = 1,
) -> Flow[_Sent]:
    """Publish and consume until all has come.

    Args:
        broker: The broker.
        declaring: The connection that declared the queues.
        publish: What the publisher's process does.
        publish_order: What it is to do.
        count_order: What the consumers are to do.
        copies: How many queues get each message.

    Raises:
        OSError: The broker went away.
        BenchError: A message was lost or out of order, or a worker failed.
    """
    counters = Counters()
    probe = ServerProbe(broker.pid)
    with Workers(probe.sample) as workers:
        consumer = workers.start(count_deliveries, count_order, counters)
        publisher = workers.start(publish, publish_order, counters)
        probe.start()
        consumer.go()
        publisher.go()
        sent = workers.wait_for(publisher)
        counters.expected.value = expected = sent.published * copies
        seen = workers.wait_for(consumer)
    server_cpu_seconds = probe.cpu_seconds()
    others_cores = probe.others_cores(sent.cpu_seconds + seen.cpu_seconds)
    ready = sum(declaring.count_ready(queue) for queue in count_order.queues)
    lost = abs(expected - sum(seen.received)) + ready
    return Flow(sent, seen, lost, server_cpu_seconds, others_cores)
