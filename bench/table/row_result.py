"""The result of one row: its figures, their ratio, and which bars they reach."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from bench.brokers import OURS, OURS_PURE, RABBITMQ
from bench.table.experiment import NOT_DURABLE, Row
from bench.table.outcome import Figure, Outcome


@dataclass(frozen=True, slots=True)
class Judgement:
    """Comparison of a figure with one bar of its row.

    Attributes:
        name: Name of the bar: "ratio", "figure" or "interpreted".
        value: Measured figure.
        bar: Figure that the row has to reach.
        is_met: Whether the figure reaches the bar.
    """

    name: str
    value: float
    bar: float
    is_met: bool


@dataclass(frozen=True, slots=True)
class RowResult:
    """One row of the table, measured.

    Attributes:
        row: The row.
        figures: Figure of each broker, by its name.
        is_in_memory: Whether the servers' data was in memory, where fsync costs nothing.
    """

    row: Row
    figures: Mapping[str, Figure]
    is_in_memory: bool = False

    @classmethod
    def of(cls, row: Row, outcome: Outcome, *, is_in_memory: bool = False) -> Self:
        """Return the result of a row from all runs of its experiment.

        Args:
            row: The row.
            outcome: Runs of the experiment that fills the row.
            is_in_memory: Value of the attribute.
        """
        brokers = dict.fromkeys(run.broker for run in outcome.runs)
        figures = {name: Figure.of(row.key, outcome.of(name)) for name in brokers}
        return cls(row, figures, is_in_memory)

    def value(self, broker: str) -> float | None:
        """Return the figure of a broker; None if there is none."""
        figure = self.figures.get(broker)
        return figure.value if figure else None

    @property
    def ratio(self) -> float | None:
        """Our figure divided by RabbitMQ's; None if one is missing or below 0."""
        ours, theirs = self.value(OURS), self.value(RABBITMQ)
        return ours / theirs if ours is not None and theirs and min(ours, theirs) >= 0 else None

    @property
    def judgements(self) -> Sequence[Judgement]:
        """All bars with a figure; the ratio first, since it depends least on the machine."""
        row = self.row
        pairs = (
            ("ratio", self.ratio, row.ratio_bar),
            ("figure", self.value(OURS), row.bar),
            ("interpreted", self.value(OURS_PURE), row.interpreted_bar),
        )
        return [
            Judgement(name, value, bar, row.reaches(value, bar))
            for name, value, bar in pairs
            if value is not None and bar is not None
        ]

    @property
    def is_split(self) -> bool:
        """Whether a bar lies between the figures of our runs."""
        figure, bar = self.figures.get(OURS), self.row.bar
        if figure is None or bar is None:
            return False
        return len({self.row.reaches(each, bar) for each in figure.runs}) > 1

    @property
    def faults(self) -> Sequence[str]:
        """Reasons why the row is wrong: a run failed, or messages were lost."""
        found = []
        for broker, figure in self.figures.items():
            if figure.lost:
                found.append(f"{broker}: LOST {figure.lost:,}")
            if figure.fault:
                found.append(f"{broker} failed: {figure.fault}")
            elif figure.value is None:
                found.append(f"{broker}: no figure")
        return found

    @property
    def doubts(self) -> Sequence[str]:
        """Reasons not to quote the row: its faults, a busy machine, data in memory."""
        found = [*self.faults]
        if busy := [name for name, figure in self.figures.items() if figure.is_busy]:
            found.append(f"busy machine ({', '.join(busy)})")
        if self.is_in_memory and self.row.durability != NOT_DURABLE:
            found.append("data in memory")
        return found
