"""How much of an experiment to run."""

from dataclasses import dataclass, replace
from typing import Final, Self


@dataclass(frozen=True, slots=True)
class Effort:
    """How long, and how many.

    Attributes:
        seconds: How long a rate is measured, in one run.
        warm_up_seconds: How long the same goes on before, unreported; every broker is warmed up.
        share: What part of the full counts to use, more than 0 to 1; see `count`.
        is_quick: Whether rough figures are enough.
    """

    seconds: float
    warm_up_seconds: float
    share: float = 1.0
    is_quick: bool = False

    def count(self, full: int, least: int = 1) -> int:
        """Give this effort's part of a count.

        Args:
            full: The count for our server, compiled, at full effort.
            least: What it takes for a figure at all.
        """
        return max(least, round(full * self.share))

    def for_slower(self, share: float) -> Self:
        """Give the effort for a broker that gets only a part of the counts, from 0 to 1."""
        return replace(self, share=self.share * share)


FULL: Final = Effort(seconds=5.0, warm_up_seconds=1.0)
QUICK_EFFORT: Final = Effort(seconds=0.5, warm_up_seconds=0.2, share=0.02, is_quick=True)
