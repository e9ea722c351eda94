"""A row of the benchmark table: one figure, and the bars that it has to reach."""

from dataclasses import dataclass
from typing import Final

NOT_DURABLE: Final = "transient"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of the table.

    A bar is reached by a figure that is as good or better: at least as high, or, where lower is
    better, at most as high.

    Attributes:
        key: What it is called on the command line and in JSON: letters, digits, hyphens.
        title: What it is, in words; the whole of it, since a row is quoted alone.
        unit: Unit of the figure.
        is_lower_better: Whether less of it is better: times, memory.
        durability: What the broker promises meanwhile: NOT_DURABLE, or "fdatasync before each
            confirm", or whatever else holds.
        bar: For our server, compiled; None where only the ratio counts.
        ratio_bar: For our server's figure divided by RabbitMQ's; None where it is not compared.
        interpreted_bar: For our server without compiled kernels; None where that is not measured.
        decimals: How many of them are worth printing.
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
        """Say whether a figure, or a ratio of two of them, is as good as a bar or better."""
        return value <= bar if self.is_lower_better else value >= bar
