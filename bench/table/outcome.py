"""The runs of an experiment against all brokers, and their figures."""

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
        seconds: Duration, with the warm-up.
        findings: Figures of the run; None if it failed.
        fault: Error of a run that failed, in one line; "" for none.
    """

    broker: str
    seconds: float
    findings: Findings | None = None
    fault: str = ""

    @property
    def is_busy(self) -> bool:
        """Whether other programs used too much CPU during the run."""
        return self.findings is not None and (self.findings.others_cores or 0) > BUSY_CORES


@dataclass(slots=True)
class Outcome:
    """All runs of one experiment so far.

    Attributes:
        experiment: The experiment.
        runs: Its runs, in their order.
    """

    experiment: Experiment
    runs: list[Run] = field(default_factory=list)

    def of(self, broker: str) -> Sequence[Run]:
        """Return the runs against one broker."""
        return [run for run in self.runs if run.broker == broker]


@dataclass(frozen=True, slots=True)
class Figure:
    """Figure of one broker in one row.

    Attributes:
        value: Median of the runs that no other program disturbed, or of all runs if each was
            disturbed; None without a figure.
        lost: Messages lost in the worst run.
        is_busy: Whether other programs disturbed every run.
        fault: Error of the first run that failed; "" for none.
        runs: Figures of which `value` is the median, in the order of the runs.
    """

    value: float | None
    lost: int = 0
    is_busy: bool = False
    fault: str = ""
    runs: Sequence[float] = field(default=(), compare=False)

    @classmethod
    def of(cls, key: str, runs: Sequence[Run]) -> "Figure":
        """Return the figure of a broker's runs.

        Args:
            key: Key of the row.
            runs: Runs against the broker, at least one.
        """
        # Other programs decide whether a run counts, never its figure.
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
    """Return an error's last line without directories, since reports leave this machine."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return _DIRECTORIES.sub(".../", lines[-1])
