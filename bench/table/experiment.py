"""How a row of the benchmark table is declared: its figure and bars, and the experiment behind it.

Each file of `bench/rows` declares one family of rows; `bench/table/rows.py` finds them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from bench.startable_broker import StartableBroker

NOT_DURABLE: Final = "transient"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of the table, with the bars that it has to reach.

    A figure reaches a bar if it is as good or better: at least as high or, where lower is better,
    at most as high.

    Attributes:
        key: Name on the command line and in JSON: letters, digits, hyphens.
        title: Full description of the figure, since a row may be quoted alone.
        unit: Unit of the figure.
        is_lower_better: Whether a lower figure is better, as for times and memory.
        durability: Promise of the broker: NOT_DURABLE, "fdatasync before each confirm", ...
        bar: Bar for our compiled server; None if only the ratio counts.
        ratio_bar: Bar for our server's figure divided by RabbitMQ's; None for no comparison.
        interpreted_bar: Bar for our server with interpreted kernels; None to leave it out.
        decimals: Decimals to print.
    """

    key: str
    title: str
    unit: str
    is_lower_better: bool = False
    durability: str = NOT_DURABLE
    bar: float | None = None
    ratio_bar: float | None = None
    interpreted_bar: float | None = None
    decimals: int = 0

    def reaches(self, value: float, bar: float) -> bool:
        """Return whether a figure, or a ratio of two figures, is as good as a bar or better."""
        return value <= bar if self.is_lower_better else value >= bar


@dataclass(frozen=True, slots=True)
class Effort:
    """How much of an experiment to run.

    Attributes:
        seconds: How long one run measures a rate.
        warm_up_seconds: How long the warm-up before each run takes; it is not reported.
        share: Part of the full counts to use, above 0 to 1; see `count`.
        is_quick: Whether rough figures are enough.
    """

    seconds: float
    warm_up_seconds: float
    share: float = 1.0
    is_quick: bool = False

    def count(self, full: int, least: int = 1) -> int:
        """Return this effort's part of a count.

        Args:
            full: Count for our compiled server at full effort.
            least: Smallest count that still gives a figure.
        """
        return max(least, round(full * self.share))

    def for_slower(self, share: float) -> Self:
        """Return the effort for a broker that gets only a part of the counts, above 0 to 1."""
        return replace(self, share=self.share * share)


FULL: Final = Effort(seconds=5.0, warm_up_seconds=1.0)
QUICK_EFFORT: Final = Effort(seconds=0.5, warm_up_seconds=0.2, share=0.02, is_quick=True)


@dataclass(frozen=True, slots=True)
class Findings:
    """Figures of one run of an experiment against one broker.

    Attributes:
        values: Figure of each row, by the row's key, in the row's unit. The table shows a row of
            the experiment that is missing here as unknown.
        lost: Messages lost, repeated or left in a queue. The figures count only if this is 0.
        others_cores: Cores that other programs kept busy during the run; None if unknown.
        details: Other figures for the JSON results.
    """

    values: Mapping[str, float]
    lost: int = 0
    others_cores: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A measurement of each broker that fills one or several rows.

    Attributes:
        name: Name in progress lines and JSON.
        rows: Rows that each run fills.
        run: Runs once against a broker: a `WorkloadRun`, or a function that counts its own
            messages. Warms up by itself and leaves no queue or exchange behind. Raises
            `BenchError` or `OSError` if there is no figure.
        seconds: Duration of one run against our server at full effort, with the warm-up.
        rabbitmq_seconds: The same against RabbitMQ; None to leave RabbitMQ out, for rows without
            a ratio.
        rabbitmq_share: Part of the counts that RabbitMQ gets (`Effort.count`), above 0 to 1.
        runs_max: Most runs that are useful, for long experiments whose figures hardly vary.
    """

    name: str
    rows: tuple[Row, ...]
    run: Callable[[StartableBroker, Effort], Findings]
    seconds: float
    rabbitmq_seconds: float | None = None
    rabbitmq_share: float = 0.1
    runs_max: int | None = None
