"""Runs publishers and consumers against one broker: a process each, one set of figures."""

from dataclasses import dataclass, replace
from typing import Final

from bench.connection import Connection
from bench.consumer import IDLE_SECONDS_MAX
from bench.process_stats import ServerProbe
from bench.running_broker import RunningBroker
from bench.traffic.consuming import BUFFER_BYTES, ConsumeOrder, ConsumeResult, consume_traffic
from bench.traffic.figures import TrafficFigures
from bench.traffic.message_source import MessageSource
from bench.traffic.publishing import PublishOrder, PublishResult, publish_traffic
from bench.traffic.row import TrafficEffort
from bench.traffic.topology import Topology
from bench.worker import Counters
from bench.workers import Workers

WRITE_MESSAGES: Final = 50
"""Messages of one write, if the window allows four of them."""


@dataclass(frozen=True, slots=True)
class TrafficRun:
    """Publishers and consumers at full speed; the `measure` of a `TrafficRow`.

    Attributes:
        topology: Queues and exchange; each queue has one consumer.
        source: Source of the messages.
        publishers: Publishers, each with a connection of its own.
        window: Most publishes without a confirm, for each publisher; 0 for no confirms.
        prefetch: Most deliveries without an ack, for each consumer; 0 for no acks.
        batch: Messages of one write.
        buffer_bytes: Size of each consumer's read buffer.
        idle_seconds: Longest wait for a message that is missing.
    """

    topology: Topology
    source: MessageSource
    publishers: int
    window: int
    prefetch: int
    batch: int = WRITE_MESSAGES
    buffer_bytes: int = BUFFER_BYTES
    idle_seconds: float = IDLE_SECONDS_MAX

    def __call__(self, broker: RunningBroker, effort: TrafficEffort) -> TrafficFigures:
        """Run once, after a warm-up on the same queues.

        Raises:
            OSError: The broker went away.
            BenchError: The broker broke the protocol, or a process failed.
        """
        with self.topology.declared(broker.url) as connection:
            if effort.warm_up_seconds:
                warm_up = replace(effort, seconds=effort.warm_up_seconds)
                self._run(broker, connection, warm_up, phase=0)
            return self._run(broker, connection, effort, phase=1)

    @property
    def _copies(self) -> int:
        return len(self.topology.queues) if self.topology.kind == "fanout" else 1

    def _run(
        self, broker: RunningBroker, connection: Connection, effort: TrafficEffort, phase: int
    ) -> TrafficFigures:
        counters = Counters()
        probe = ServerProbe(broker.pid)
        consume_order = ConsumeOrder(
            broker.url,
            self.topology.queues,
            self.prefetch,
            self.publishers,
            phase,
            self.source.lead,
            self.buffer_bytes,
            has_copies=self._copies > 1,
            idle_seconds=self.idle_seconds,
        )
        publish_order = PublishOrder(
            broker.url,
            self.source,
            effort.seed,
            phase,
            self.publishers,
            self.window,
            self.batch,
            effort.seconds,
        )
        with Workers(probe.sample) as workers:
            consumer = workers.start(consume_traffic, consume_order, counters)
            publisher = workers.start(publish_traffic, publish_order, counters)
            probe.start()
            consumer.go()
            publisher.go()
            sent = workers.wait_for(publisher)
            counters.expected.value = sent.confirmed * self._copies
            seen = workers.wait_for(consumer)
        return self._to_figures(connection, probe, sent, seen, effort.seed)

    def _to_figures(
        self,
        connection: Connection,
        probe: ServerProbe,
        sent: PublishResult,
        seen: ConsumeResult,
        seed: int,
    ) -> TrafficFigures:
        server_cpu_seconds = probe.cpu_seconds()
        cpu_seconds = (sent.cpu_seconds, seen.cpu_seconds)
        others_cores = probe.others_cores(sum(cpu_seconds))
        verdict = seen.verdict
        missing = sent.confirmed * self._copies - verdict.distinct
        surplus = verdict.distinct - sent.published * self._copies
        left = sum(connection.count_ready(queue) for queue in self.topology.queues)
        return TrafficFigures(
            messages=verdict.received,
            seconds=max(sent.end_ns, seen.end_ns) / 1e9 - sent.start_ns / 1e9,
            lost=max(0, missing, surplus) + left,
            repeated=verdict.repeated,
            corrupt=verdict.corrupt,
            disordered=verdict.disordered,
            latency=sent.latency or seen.latency,
            server_cpu_seconds=server_cpu_seconds,
            generator_cpu_seconds=cpu_seconds,
            others_cores=others_cores,
            seed=seed,
        )
