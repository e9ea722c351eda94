"""How many durable queues a second a broker declares, all asked for at once on one connection."""

from typing import Final

from bench.connection import Connection
from bench.declares import declare_queue, delete_queue, measure, send_pipelined
from bench.process_stats import ServerProbe
from bench.rows.effort import Effort
from bench.rows.experiment import Experiment, Findings
from bench.rows.row import Row
from bench.startable_broker import StartableBroker

ROW: Final = Row(
    "declares",
    "durable queues declared, pipelined on one connection",
    "/s",
    durability="the answer comes when the queue survives a power cut",
    ratio_bar=3,
)

_COUNT: Final = 3_000
_COUNT_LEAST: Final = 20


def measure_declares(broker: StartableBroker, effort: Effort) -> Findings:
    """Run it once; as `Experiment.run`. Every answer is checked, so none is lost silently."""
    running = broker.running()
    count = effort.count(_COUNT, least=_COUNT_LEAST)
    probe = ServerProbe(running.pid)
    declared_per_second = measure(
        running.url, declare_queue, send_pipelined, count=count, connections=1
    )
    server_cpu_seconds = probe.cpu_seconds()
    with Connection(running.url, 1) as connection:
        # Of a queue that is not there, the broker closes the channel: an error here.
        for number in (0, count // 2, count - 1):
            connection.count_ready(f"q{number}")
        connection.close()
    deleted_per_second = measure(
        running.url, delete_queue, send_pipelined, count=count, connections=1
    )
    return Findings(
        {ROW.key: declared_per_second},
        details={
            "count": count,
            "server_cpu_seconds": server_cpu_seconds,
            "deleted_per_second": deleted_per_second,
        },
    )


DECLARES: Final = Experiment(
    "declares", (ROW,), measure_declares, seconds=4, rabbitmq_seconds=6, rabbitmq_share=0.3
)
