"""A topic exchange with many patterns and many routing keys: every message has another key.

The keys are those of 1,000 production lines with ten sensors each, at ten sites. Each line has one
binding, with `*` or `#` in it, so each message matches one of 1,000 bindings: it is delivered once.
"""

from typing import Final

from bench.publisher import PublishOrder, publish
from bench.rows.counting import CountOrder
from bench.rows.effort import Effort
from bench.rows.exchanges import Bindings, bound_exchange
from bench.rows.experiment import Experiment, Findings
from bench.rows.flow import clean_queues, run_flow
from bench.rows.row import Row
from bench.startable_broker import StartableBroker

ROW: Final = Row(
    "topic",
    "topic exchange, 1,000 bindings with * and #, 10,000 routing keys in turn, no acks, 128 B",
    "msg/s",
    bar=500_000,
    ratio_bar=8,
)

LINES: Final = 1_000
SENSORS: Final = 10
_LINES_PER_SITE: Final = 100
_EXCHANGE: Final = "bench-topic"
_QUEUES: Final = ("bench",)
_SECONDS_MAX: Final = 3.0


def routing_keys() -> tuple[str, ...]:
    """Give all keys, each once, all of one length; a line's are far apart."""
    return tuple(
        f"site{_site(line)}.line{line:03}.sensor{sensor}.value"
        for sensor in range(SENSORS)
        for line in range(LINES)
    )


def pattern(line: int) -> str:
    """Give the binding key that all keys of a line match, and no key of another line."""
    site = f"site{_site(line)}"
    kinds = (
        f"{site}.line{line:03}.#",
        f"{site}.line{line:03}.*.value",
        f"*.line{line:03}.*.value",
        f"#.line{line:03}.#",
    )
    return kinds[line % len(kinds)]


def measure_topic(broker: StartableBroker, effort: Effort) -> Findings:
    """Run it once; as `Experiment.run`."""
    running = broker.running()
    keys = routing_keys()
    bindings = Bindings(
        _EXCHANGE,
        "topic",
        tuple((_QUEUES[line % len(_QUEUES)], pattern(line)) for line in range(LINES)),
    )
    with clean_queues(running.url, _QUEUES) as declaring, bound_exchange(declaring, bindings):
        for seconds in (effort.warm_up_seconds, min(effort.seconds, _SECONDS_MAX)):
            order = PublishOrder(
                running.url,
                "",
                body_bytes=128,
                seconds=seconds,
                exchange=_EXCHANGE,
                routing_keys=keys,
            )
            count_order = CountOrder(
                running.url, _QUEUES, order.block_messages, is_dealt=len(_QUEUES) > 1
            )
            flow = run_flow(running, declaring, publish, order, count_order)
    return Findings(
        {ROW.key: flow.deliveries_per_second}, flow.lost, flow.others_cores, flow.details()
    )


def _site(line: int) -> int:
    return line // _LINES_PER_SITE


TOPIC: Final = Experiment("topic", (ROW,), measure_topic, seconds=6, rabbitmq_seconds=6)
