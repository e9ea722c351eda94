"""Twenty publishers and twenty consumers, each pair on its own queue: rate and fairness."""

from collections.abc import Sequence
from typing import Final

from bench.errors import BenchError
from bench.table.experiment import Experiment, Row
from bench.table.workload_run import WorkloadRun
from bench.workloads import Kind, Workload


def spread_percent(figures: Sequence[int]) -> float:
    """Return (largest - least) / mean in percent; 0 if all figures are 0.

    Raises:
        BenchError: There are no figures.
    """
    if not figures:
        raise BenchError("the run ended before its publishers had to stop: it was too short")
    total = sum(figures)
    return 100 * (max(figures) - min(figures)) * len(figures) / total if total else 0.0


EXPERIMENTS: Final = (
    Experiment(
        "many-clients",
        (
            Row(
                "many-clients",
                "20 publishers and 20 consumers, 20 queues, acks, prefetch 1000, "
                "alike messages of 128 B",
                "msg/s",
                bar=500_000,
                ratio_bar=8,
            ),
            Row(
                "fairness",
                "20 publishers' rates: (largest - least) / mean",
                "%",
                is_lower_better=True,
                bar=20,
                decimals=1,
            ),
        ),
        WorkloadRun(
            Workload(
                Kind.PAIRS,
                prefetch=1000,
                ack_every=250,
                queues=tuple(f"bench{number:02}" for number in range(20)),
            ),
            lambda measured: {
                "many-clients": measured.consumed_per_second,
                "fairness": spread_percent(measured.passed_of_each),
            },
            seconds_max=3,
        ),
        seconds=5,
        rabbitmq_seconds=6,
    ),
)
