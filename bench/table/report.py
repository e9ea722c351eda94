"""The report of a table, and its form as JSON."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.machine import Machine
from bench.table.curves import SizePoint, TimeCurve
from bench.table.outcome import Outcome, Run
from bench.table.row_result import RowResult


@dataclass(slots=True)
class Report:
    """One table, complete or interrupted.

    Attributes:
        date: Day of the measurement, in ISO format.
        machine: Machine of the measurement.
        file_system: Type of the file system with the servers' data.
        is_quick: Whether the figures are rough and therefore not judged.
        products: Name and version that each broker reports.
        results: Rows, in the table's order.
        outcomes: Every run of every experiment.
        sizes: Throughput over the size of messages.
        over_time: Throughput over time.
        faults: Other errors, each in one line.
    """

    date: str
    machine: Machine
    file_system: str
    is_quick: bool
    products: Mapping[str, str] = field(default_factory=dict)
    results: Sequence[RowResult] = ()
    outcomes: Sequence[Outcome] = ()
    sizes: list[SizePoint] = field(default_factory=list)
    over_time: list[TimeCurve] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def counts(self) -> bool:
        """Whether all figures count; a missed bar is no fault.

        Rough figures count even on a busy machine, since they are not quoted.
        """
        doubts = [result.faults if self.is_quick else result.doubts for result in self.results]
        lost = [point.lost for point in self.sizes] + [curve.lost for curve in self.over_time]
        return not (self.faults or any(doubts) or any(lost))

    def to_json(self) -> dict[str, Any]:
        """Return the report, with every run, in a form that `json` can write."""
        return {
            "date": self.date,
            "commit": self.machine.commit.removesuffix("+"),
            "is_dirty": self.machine.commit.endswith("+"),
            "machine": dataclasses.asdict(self.machine),
            "file_system": self.file_system,
            "is_quick": self.is_quick,
            "brokers": dict(self.products),
            "counts": self.counts,
            "faults": self.faults,
            "rows": [_row_to_json(result) for result in self.results],
            "experiments": [
                {
                    "name": outcome.experiment.name,
                    "runs": [_run_to_json(run) for run in outcome.runs],
                }
                for outcome in self.outcomes
            ],
            "sizes": [dataclasses.asdict(point) for point in self.sizes],
            "over_time": [_curve_to_json(curve) for curve in self.over_time],
        }


def _row_to_json(result: RowResult) -> dict[str, Any]:
    return dataclasses.asdict(result.row) | {
        "figures": {name: dataclasses.asdict(each) for name, each in result.figures.items()},
        "ratio": result.ratio,
        "judgements": [dataclasses.asdict(each) for each in result.judgements],
        "doubts": list(result.doubts),
    }


def _run_to_json(run: Run) -> dict[str, Any]:
    findings = run.findings
    return {
        "broker": run.broker,
        "seconds": round(run.seconds, 2),
        "is_busy": run.is_busy,
        "fault": run.fault,
        "values": dict(findings.values) if findings else {},
        "lost": findings.lost if findings else None,
        "others_cores": findings.others_cores if findings else None,
        "details": dict(findings.details) if findings else {},
    }


def _curve_to_json(curve: TimeCurve) -> dict[str, Any]:
    return {
        "workload": curve.workload,
        "broker": curve.broker,
        "seconds": [round(each, 2) for each in curve.seconds],
        "messages_per_second": [round(each) for each in curve.messages_per_second],
        "lost": curve.lost,
        "is_busy": curve.is_busy,
    }
