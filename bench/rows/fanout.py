"""One publisher, a fanout exchange, ten queues: each message is delivered ten times."""

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
    "fanout",
    "fanout to 10 queues, transient, no acks, 128 B",
    "deliveries/s",
    bar=1_500_000,
    ratio_bar=10,
)

_QUEUES: Final = tuple(f"bench{number}" for number in range(10))
_EXCHANGE: Final = "bench-fanout"
_SECONDS_MAX: Final = 3.0


def measure_fanout(broker: StartableBroker, effort: Effort) -> Findings:
    """Run it once; as `Experiment.run`."""
    running = broker.running()
    bindings = Bindings(_EXCHANGE, "fanout", tuple((queue, "") for queue in _QUEUES))
    with clean_queues(running.url, _QUEUES) as declaring, bound_exchange(declaring, bindings):
        for seconds in (effort.warm_up_seconds, min(effort.seconds, _SECONDS_MAX)):
            order = PublishOrder(
                running.url, "", body_bytes=128, seconds=seconds, exchange=_EXCHANGE
            )
            count_order = CountOrder(running.url, _QUEUES, order.block_messages)
            flow = run_flow(running, declaring, publish, order, count_order, copies=len(_QUEUES))
    return Findings(
        {ROW.key: flow.deliveries_per_second}, flow.lost, flow.others_cores, flow.details()
    )


FANOUT: Final = Experiment("fanout", (ROW,), measure_fanout, seconds=6, rabbitmq_seconds=6)
