"""What came out of an experiment: every run of it, against every broker."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.process_stats import BUSY_CORES
from bench.table.experiment import Experiment, Findings

_DIRECTORIES: Final = re.compile(r"(?:/[\w.+-]+)+/")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an experiment against one broker.

    Attributes:
        broker: Name of the broker.
        seconds: How long it took, warm-up included.
        findings: What it gave; None when it failed.
        fault: Why it failed, in a line; "" when it did not.
    """

    broker: str
    seconds: float
    findings: Findings | None = None
    fault: str = ""

    @property
    def is_busy(self) -> bool:
        """Whether other programs took too much of the machine meanwhile."""
        return self.findings is not None and (self.findings.others_cores or 0) > BUSY_CORES


@dataclass(slots=True)
class Outcome:
    """What came out of one experiment so far.

    Attributes:
        experiment: What was run.
        runs: Its runs, in the order in which they were made.
    """

    experiment: Experiment
    runs: list[Run] = field(default_factory=list)

    def of(self, broker: str) -> Sequence[Run]:
        """Give the runs of one broker."""
        return [run for run in self.runs if run.broker == broker]


@dataclass(frozen=True, slots=True)
class Figure:
    """What the runs of one broker come to in one row.

    Attributes:
        value: The median of the runs that no other program disturbed, or of all when each was;
            None when there is none.
        lost: Messages lost in the worst run.
        is_busy: Whether other programs disturbed every run.
        fault: Why a run failed; "" when none did.
        runs: What `value` is the median of, in the order of the runs.
    """

    value: float | None
    lost: int = 0
    is_busy: bool = False
    fault: str = ""
    runs: Sequence[float] = field(default=(), compare=False)

    @classmethod
    def of(cls, key: str, runs: Sequence[Run]) -> "Figure":
        """Sum up the runs of one broker.

        Args:
            key: Key of the row.
            runs: At least one.
        """
        # Whether a run counts is decided by what other programs did, never by its figure.
        quiet = [run for run in runs if not run.is_busy] or runs
        values = [
            run.findings.values[key] for run in quiet if run.findings and key in run.findings.values
        ]
        return cls(
            value=statistics.median(values) if values else None,
            lost=max(run.findings.lost if run.findings else 0 for run in runs),
            is_busy=all(run.is_busy for run in runs),
            fault=next((run.fault for run in runs if run.fault), ""),
            runs=tuple(values),
        )


def one_line(error: BaseException) -> str:
    """Give an error's last line, without directories: reports go elsewhere than they were made."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return _DIRECTORIES.sub(".../", lines[-1])
