"""Measures a table: prints the plan, then each row when it is measured, and fills the report."""

import datetime
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from bench.brokers import OURS, OURS_PURE, STARTERS
from bench.errors import BenchError
from bench.machine import IN_MEMORY, Machine, file_system_of
from bench.table.curves import (
    BODY_SIZES,
    SIZE_POINT_SECONDS,
    SIZE_WORKLOADS,
    curve_seconds,
    measure_over_time,
    measure_sizes,
)
from bench.table.experiment import Effort
from bench.table.outcome import Outcome, one_line
from bench.table.plan import Clock, describe_plan, plan_experiments
from bench.table.report import Report
from bench.table.row_result import RowResult
from bench.table.rows import EXPERIMENTS, ROWS
from bench.table.table_session import TableSession, describe_seconds
from bench.table.text import format_head, format_notes, format_row

SIZES: Final = "sizes"
OVER_TIME: Final = "over-time"
"""Names of the picture's curves, which `--rows` accepts too."""

INTERRUPTED: Final = "interrupted"
"""Fault in the report of a table that Ctrl-C ended."""


class TableMeasuring:
    """Measures the chosen rows and curves.

    Args:
        data_parent: Directory for the servers' data directories.
        effort: How much of each experiment to run.
        brokers: Names of the brokers, which take turns.
        runs: Runs of each experiment and broker, from 1.
        chosen: Keys of rows, `SIZES`, `OVER_TIME`.
    """

    def __init__(
        self,
        data_parent: Path,
        effort: Effort,
        brokers: Sequence[str],
        runs: int,
        chosen: Sequence[str],
    ) -> None:
        self._effort = effort
        self._brokers = brokers
        self._chosen = chosen
        self._printed: list[Outcome] = []
        self._planned = plan_experiments(
            [each for each in EXPERIMENTS if any(row.key in chosen for row in each.rows)],
            brokers,
            runs,
            effort,
        )
        self._report = Report(
            date=datetime.datetime.now(datetime.UTC).date().isoformat(),
            machine=Machine.inspect(),
            file_system=file_system_of(data_parent),
            is_quick=effort.is_quick,
        )
        self._session = TableSession(
            {name: STARTERS[name] for name in brokers},
            data_parent,
            Clock(sum(each.seconds() for each in self._planned) + self._curves_seconds()),
            lambda line: click.echo(line, err=True),
            keeps_brokers=effort.is_quick,
        )

    def run(self) -> None:
        """Measure; Ctrl-C stops the measuring and keeps the results so far."""
        self._print_plan()
        click.echo(format_head())
        try:
            with self._session:
                for planned in self._planned:
                    self._print(self._session.run(planned))
                if SIZES in self._chosen:
                    self._measure_sizes()
                if OVER_TIME in self._chosen:
                    self._measure_over_time()
        except KeyboardInterrupt:
            self._report.faults.append(INTERRUPTED)

    def finish(self) -> Report:
        """Print the remaining rows and the notes below the table; return the report."""
        report = self._report
        report.products = self._session.products
        report.outcomes = [each for each in self._session.outcomes if each.runs]
        for outcome in report.outcomes:
            if outcome not in self._printed:
                self._print(outcome)
        by_key = {
            result.row.key: result for each in report.outcomes for result in self._results_of(each)
        }
        report.results = [by_key[row.key] for row in ROWS if row.key in by_key]
        click.echo()
        for line in format_notes(report.results, is_judged=not report.is_quick):
            click.echo(line)
        for fault in report.faults:
            click.echo(fault)
        return report

    def _print_plan(self) -> None:
        report = self._report
        click.echo(f"{report.machine.describe()}, {report.file_system}")
        if report.file_system in IN_MEMORY:
            click.echo(
                "The data directory is in memory, where fsync costs nothing: "
                "choose a disk with --data-dir"
            )
        for line in describe_plan(self._planned):
            click.echo(line, err=True)
        self._session.say_with_time("planned")

    def _results_of(self, outcome: Outcome) -> list[RowResult]:
        is_in_memory = self._report.file_system in IN_MEMORY
        return [
            RowResult.of(row, outcome, is_in_memory=is_in_memory)
            for row in outcome.experiment.rows
            if row.key in self._chosen
        ]

    def _print(self, outcome: Outcome) -> None:
        self._printed.append(outcome)
        for result in self._results_of(outcome):
            click.echo(format_row(result, is_judged=not self._report.is_quick))

    def _curve_brokers(self) -> list[str]:
        return [name for name in self._brokers if name != OURS_PURE]

    def _curves_seconds(self) -> float:
        points = len(BODY_SIZES) * len(SIZE_WORKLOADS) * len(self._curve_brokers())
        sizes_seconds = points * SIZE_POINT_SECONDS * (SIZES in self._chosen)
        return sizes_seconds + curve_seconds(self._effort) * (OVER_TIME in self._chosen)

    def _measure_sizes(self) -> None:
        brokers = [self._session.broker(name) for name in self._curve_brokers()]
        for workload, body_bytes in itertools.product(SIZE_WORKLOADS, BODY_SIZES):
            self._session.say_with_time(f"{workload}, {body_bytes} B")
            points = measure_sizes(brokers, workload, body_bytes, self._effort)
            self._report.sizes += points
            self._report.faults += [
                f"{each.broker}, {workload}, {body_bytes} B: {each.fault}"
                for each in points
                if each.fault
            ]
            self._session.clock.advance(SIZE_POINT_SECONDS * len(brokers))
        self._session.stop_brokers()

    def _measure_over_time(self) -> None:
        self._session.say_with_time(f"durable, for {describe_seconds(curve_seconds(self._effort))}")
        try:
            curve = measure_over_time(self._session.broker(OURS), self._effort)
            self._report.over_time.append(curve)
        except (BenchError, OSError) as error:
            self._report.faults.append(f"over time: {one_line(error)}")
