"""Twenty publishers and twenty consumers, each pair on a queue of its own: rate and fairness."""

from collections.abc import Sequence
from typing import Final

from bench.publish_block import PublishBlock
from bench.publisher import PUBLISH_CHANNEL
from bench.rows.counting import CountOrder
from bench.rows.effort import Effort
from bench.rows.equal_publishers import EqualPublishOrder, publish_equally
from bench.rows.experiment import Experiment, Findings
from bench.rows.flow import clean_queues, run_flow
from bench.rows.row import Row
from bench.startable_broker import StartableBroker

RATE: Final = Row(
    "many-clients",
    "20 publishers and 20 consumers, 20 queues, acks, prefetch 1000, 128 B",
    "msg/s",
    bar=500_000,
    ratio_bar=8,
)
FAIRNESS: Final = Row(
    "fairness",
    "20 publishers' rates: (largest - least) / mean",
    "%",
    is_lower_better=True,
    bar=20,
    decimals=1,
)

_CLIENTS: Final = 20
_BODY_BYTES: Final = 128
_SETTLE_SHARE: Final = 0.25
_SECONDS_MAX: Final = 3.0


def measure_many_clients(broker: StartableBroker, effort: Effort) -> Findings:
    """Run it once; as `Experiment.run`."""
    running = broker.running()
    queues = tuple(f"bench{number:02}" for number in range(_CLIENTS))
    block = PublishBlock(PUBLISH_CHANNEL, queues[0], body_bytes=_BODY_BYTES)
    count_order = CountOrder(
        running.url, queues, block.block_messages, prefetch=1000, ack_every=250
    )
    with clean_queues(running.url, queues) as declaring:
        for seconds in (effort.warm_up_seconds, min(effort.seconds, _SECONDS_MAX)):
            publish_order = EqualPublishOrder(
                running.url, queues, _BODY_BYTES, seconds, settle_seconds=seconds * _SETTLE_SHARE
            )
            flow = run_flow(running, declaring, publish_equally, publish_order, count_order)
    settled_bytes = flow.sent.settled_bytes
    return Findings(
        {RATE.key: flow.deliveries_per_second, FAIRNESS.key: spread_percent(settled_bytes)},
        flow.lost,
        flow.others_cores,
        flow.details() | {"settled_bytes": settled_bytes, "received_each": flow.seen.received},
    )


def spread_percent(figures: Sequence[int]) -> float:
    """Say how far apart equal things are: (largest - least) / mean, in percent; 0 for nothing."""
    total = sum(figures)
    return 100 * (max(figures) - min(figures)) * len(figures) / total if total else 0.0


MANY_CLIENTS: Final = Experiment(
    "many-clients", (RATE, FAIRNESS), measure_many_clients, seconds=5, rabbitmq_seconds=6
)
