"""Durable queues a second that a broker declares, pipelined on one connection."""

from typing import Final

from bench import declares
from bench.connection import Connection
from bench.process_stats import ServerProbe
from bench.startable_broker import StartableBroker
from bench.table.experiment import Effort, Experiment, Findings, Row

_COUNT: Final = 3_000
_COUNT_LEAST: Final = 20


def _measure(broker: StartableBroker, effort: Effort) -> Findings:
    # Every answer is checked, so no request is lost without an error.
    running = broker.running()
    count = effort.count(_COUNT, least=_COUNT_LEAST)
    probe = ServerProbe(running.pid)
    declared_per_second = declares.measure(
        running.url, declares.declare_queue, Connection.ask_pipelined, count=count, connections=1
    )
    server_cpu_seconds = probe.cpu_seconds()
    with Connection(running.url, 1) as connection:
        # If a queue does not exist, the broker closes the channel, which is an error here.
        for number in (0, count // 2, count - 1):
            connection.count_ready(f"q{number}")
        connection.close()
    deleted_per_second = declares.measure(
        running.url, declares.delete_queue, Connection.ask_pipelined, count=count, connections=1
    )
    return Findings(
        {"declares": declared_per_second},
        details={
            "count": count,
            "server_cpu_seconds": server_cpu_seconds,
            "deleted_per_second": deleted_per_second,
        },
    )


EXPERIMENTS: Final = (
    Experiment(
        "declares",
        (
            Row(
                "declares",
                "durable queues declared, pipelined on one connection",
                "/s",
                durability="the answer comes when the queue survives a power cut",
                ratio_bar=3,
            ),
        ),
        _measure,
        seconds=4,
        rabbitmq_seconds=6,
        rabbitmq_share=0.3,
    ),
)
