"""Time from a broker's start to the moment when it listens, with nothing to read."""

import time
from typing import Final

from bench.startable_broker import StartableBroker
from bench.table.experiment import Effort, Experiment, Findings, Row


def _measure(broker: StartableBroker, _: Effort) -> Findings:
    # RabbitMQ opens its port before it is ready: its start ends with the first login.
    begin = time.monotonic()
    with broker.start():
        return Findings({"start": time.monotonic() - begin})


EXPERIMENTS: Final = (
    Experiment(
        "start",
        (
            Row(
                "start",
                "start to listening, empty directory",
                "s",
                is_lower_better=True,
                bar=0.25,
                decimals=3,
            ),
        ),
        _measure,
        seconds=1,
        rabbitmq_seconds=12,
    ),
)
