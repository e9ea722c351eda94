"""How long a broker takes from its start to the moment when it listens, with nothing to read."""

import time
from typing import Final

from bench.rows.effort import Effort
from bench.rows.experiment import Experiment, Findings
from bench.rows.row import Row
from bench.startable_broker import StartableBroker

ROW: Final = Row(
    "start",
    "start to listening, empty directory",
    "s",
    is_lower_better=True,
    bar=0.25,
    decimals=3,
)


def measure_start(broker: StartableBroker, _: Effort) -> Findings:
    """Run it once; as `Experiment.run`.

    RabbitMQ opens its port before it is ready, so there it is the first login that counts.

    Raises:
        BrokerStartError: It did not start.
    """
    begin = time.monotonic()
    with broker.start():
        return Findings({ROW.key: time.monotonic() - begin})


START: Final = Experiment("start", (ROW,), measure_start, seconds=1, rabbitmq_seconds=12)
