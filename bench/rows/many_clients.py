"""Twenty publishers and twenty consumers, each pair on a queue of its own: rate and fairness."""

from collections.abc import Sequence
from typing import Final

from bench.errors import BenchError
from bench.publish_block import PublishBlock
from bench.publisher import PUBLISH_CHANNEL
from bench.rows.counting import CountOrder, CountResult
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
_MARKS: Final = (0.25, 0.95)
"""Parts of the time between which fairness is measured: all have begun, none has ended."""
_SECONDS_MAX: Final = 3.0


def measure_many_clients(broker: StartableBroker, effort: Effort) -> Findings:
    """Run it once; as `Experiment.run`."""
    running = broker.running()
    queues = tuple(f"bench{number:02}" for number in range(_CLIENTS))
    block = PublishBlock(PUBLISH_CHANNEL, queues[0], body_bytes=_BODY_BYTES)
    with clean_queues(running.url, queues) as declaring:
        for seconds in (effort.warm_up_seconds, min(effort.seconds, _SECONDS_MAX)):
            publish_order = EqualPublishOrder(running.url, queues, _BODY_BYTES, seconds)
            count_order = CountOrder(
                running.url,
                queues,
                block.block_messages,
                prefetch=1000,
                ack_every=250,
                marks_seconds=tuple(seconds * mark for mark in _MARKS),
            )
            flow = run_flow(running, declaring, publish_equally, publish_order, count_order)
    passed = passed_between_marks(flow.seen)
    return Findings(
        {RATE.key: flow.deliveries_per_second, FAIRNESS.key: spread_percent(passed)},
        flow.lost,
        flow.others_cores,
        flow.details() | {"passed_of_each": passed, "received_of_each": flow.seen.received},
    )


def passed_between_marks(seen: CountResult) -> tuple[int, ...]:
    """Give what the broker passed on of each publisher while all of them published.

    Counted at the consumers: what a publisher's socket took may still be in the kernel, whose
    buffers grow by megabytes, for one connection and not for the other.

    Raises:
        BenchError: The run was over before both marks.
    """
    if len(seen.received_at) < 2:
        raise BenchError("the run was over before its publishers had to stop")
    start, end = seen.received_at
    return tuple(after - before for before, after in zip(start, end, strict=True))


def spread_percent(figures: Sequence[int]) -> float:
    """Say how far apart equal things are: (largest - least) / mean, in percent; 0 for nothing."""
    total = sum(figures)
    return 100 * (max(figures) - min(figures)) * len(figures) / total if total else 0.0


MANY_CLIENTS: Final = Experiment(
    "many-clients", (RATE, FAIRNESS), measure_many_clients, seconds=5, rabbitmq_seconds=6
)
