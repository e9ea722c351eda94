"""One publisher, one consumer that acknowledges every message by itself."""

from typing import Final

from bench.publisher import PublishOrder, publish
from bench.rows.counting import CountOrder
from bench.rows.effort import Effort
from bench.rows.experiment import Experiment, Findings
from bench.rows.flow import clean_queues, run_flow
from bench.rows.row import Row
from bench.startable_broker import StartableBroker

ROW: Final = Row(
    "single-acks",
    "transient, an ack for each message (no multiple), prefetch 100, 128 B",
    "msg/s",
    ratio_bar=5,
)

_QUEUE: Final = "bench"
_PREFETCH: Final = 100
_READ_BYTES_LEAST: Final = 4_096
"""About a fifth of what `_PREFETCH` deliveries come to: the broker must not stand idle."""
_SECONDS_MAX: Final = 3.0


def measure_single_acks(broker: StartableBroker, effort: Effort) -> Findings:
    """Run it once; as `Experiment.run`."""
    running = broker.running()
    with clean_queues(running.url, [_QUEUE]) as declaring:
        for seconds in (effort.warm_up_seconds, min(effort.seconds, _SECONDS_MAX)):
            order = PublishOrder(running.url, _QUEUE, body_bytes=128, seconds=seconds)
            count_order = CountOrder(
                running.url,
                (_QUEUE,),
                order.block_messages,
                prefetch=_PREFETCH,
                read_bytes_least=_READ_BYTES_LEAST,
            )
            flow = run_flow(running, declaring, publish, order, count_order)
    return Findings(
        {ROW.key: flow.deliveries_per_second}, flow.lost, flow.others_cores, flow.details()
    )


SINGLE_ACKS: Final = Experiment(
    "single-acks", (ROW,), measure_single_acks, seconds=6, rabbitmq_seconds=6
)
