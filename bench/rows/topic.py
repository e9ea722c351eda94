"""A topic exchange with many patterns and many routing keys: every message has another key.

The keys are those of 1,000 production lines with ten sensors each, at ten sites. Each line has one
binding, with `*` or `#` in it. Each message matches one of these bindings and is delivered once.
"""

from typing import Final

from bench.exchange import Exchange
from bench.table.experiment import Experiment, Row
from bench.table.workload_run import WorkloadRun
from bench.workloads import QUEUE, Workload

LINES: Final = 1_000
SENSORS: Final = 10
_LINES_PER_SITE: Final = 100


def routing_keys() -> tuple[str, ...]:
    """Return all keys, each once, all of one length; the keys of a line are far apart."""
    return tuple(
        f"{_site(line)}.line{line:03}.sensor{sensor}.value"
        for sensor in range(SENSORS)
        for line in range(LINES)
    )


def pattern(line: int) -> str:
    """Return the binding key that matches all keys of a line, and no key of another line."""
    site = _site(line)
    kinds = (
        f"{site}.line{line:03}.#",
        f"{site}.line{line:03}.*.value",
        f"*.line{line:03}.*.value",
        f"#.line{line:03}.#",
    )
    return kinds[line % len(kinds)]


def _site(line: int) -> str:
    return f"site{line // _LINES_PER_SITE}"


EXPERIMENTS: Final = (
    Experiment(
        "topic",
        (
            Row(
                "topic",
                "topic exchange, 1,000 bindings with * and #, 10,000 routing keys in turn, "
                "no acks, messages of 128 B alike but for their keys",
                "msg/s",
                bar=500_000,
                ratio_bar=8,
            ),
        ),
        WorkloadRun(
            Workload(
                exchange=Exchange(
                    "bench-topic",
                    "topic",
                    tuple((QUEUE, pattern(line)) for line in range(LINES)),
                ),
                routing_keys=routing_keys(),
            ),
            lambda measured: {"topic": measured.consumed_per_second},
            seconds_max=3,
        ),
        seconds=6,
        rabbitmq_seconds=6,
    ),
)
