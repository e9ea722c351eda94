"""The figures of `python -m bench` as a table, and as JSON with every run."""

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.brokers import RABBITMQ
from bench.latency import milliseconds
from bench.machine import Machine
from bench.measurement import Measurement
from bench.process_stats import BUSY_CORES
from bench.session import Outcome
from bench.workloads import WORKLOADS, Scale

_MIB: Final = 2**20
_LABEL_WIDTH: Final = 34
_COLUMN_WIDTH: Final = 20


@dataclass(frozen=True, slots=True)
class _Row:
    """One figure: name with unit, source, decimals, and how several runs become one figure."""

    label: str
    read: Callable[[Measurement], float | None]
    decimals: int = 0
    combine: Callable[[Sequence[float]], float] = statistics.median
    has_ratio: bool = True


def _mib(octets: float | None) -> float | None:
    return None if octets is None else octets / _MIB


_ROWS: Final = (
    _Row("published, msg/s", lambda each: each.published_per_second),
    _Row("consumed, msg/s", lambda each: each.consumed_per_second),
    _Row("latency p50, ms", lambda each: milliseconds(each.latency, "p50"), 3),
    _Row("latency p99, ms", lambda each: milliseconds(each.latency, "p99"), 3),
    _Row("latency p99.9, ms", lambda each: milliseconds(each.latency, "p999"), 3),
    _Row("latency worst, ms", lambda each: milliseconds(each.latency, "worst"), 3),
    _Row("confirm p99, ms", lambda each: milliseconds(each.confirm_latency, "p99"), 3),
    _Row(
        "publisher late by at most, ms",
        lambda each: None if each.late_seconds_max is None else each.late_seconds_max * 1e3,
        3,
        max,
        has_ratio=False,
    ),
    _Row("server CPU, s per million msg", lambda each: each.server_cpu_seconds_per_million, 2),
    _Row("server VmHWM, MiB", lambda each: _mib(each.peak_rss_bytes), 1),
    _Row("server RssAnon, peak, MiB", lambda each: _mib(each.rss_anon_bytes_max), 1),
    _Row("server RssAnon, backlog, MiB", lambda each: _mib(each.rss_anon_bytes_backlog), 1),
    _Row(
        "generator CPU, cores",
        lambda each: each.generator_cores,
        2,
        has_ratio=False,
    ),
    _Row("other programs' CPU, cores", lambda each: each.others_cores, 2, max, has_ratio=False),
    _Row("messages", lambda each: each.received, has_ratio=False),
    _Row("nacked", lambda each: each.nacked or None, 0, max, has_ratio=False),
    _Row("seconds at a standstill", lambda each: each.stalled_seconds, 0, max, has_ratio=False),
    _Row("LOST", lambda each: each.lost, 0, max, has_ratio=False),
)


def format_table(outcomes: Sequence[Outcome]) -> str:
    """Return one workload's table: a row for each figure, a column for each broker.

    Figures are medians of the runs; LOST and other faults are those of the worst run. With
    RabbitMQ among the brokers, the last columns are the ratios of the others to it.

    Args:
        outcomes: Outcomes of one workload, one for each broker, at least one.
    """
    workload = WORKLOADS[outcomes[0].workload]
    brokers = [outcome.broker for outcome in outcomes]
    others = [name for name in brokers if name != RABBITMQ] if RABBITMQ in brokers else []
    heads = [*brokers, *(f"{name}/{RABBITMQ}" for name in others)]
    lines = ["", f"{outcomes[0].workload}: {workload.summary}", _line("", heads)]
    for row in _ROWS:
        values = {outcome.broker: _combine(row, outcome) for outcome in outcomes}
        if all(value is None for value in values.values()):
            continue
        cells = [_number(values[name], row.decimals) for name in brokers]
        ratios = [
            _ratio(values[name], values[RABBITMQ]) if row.has_ratio else "" for name in others
        ]
        lines.append(_line(row.label, [*cells, *ratios]))
    lines += [f"  {note}" for outcome in outcomes for note in _notes(outcome)]
    return "\n".join(line.rstrip() for line in lines)


def to_json(
    machine: Machine, command: Sequence[str], scale: Scale, outcomes: Sequence[Outcome]
) -> dict[str, Any]:
    """Return all figures of all runs, with the machine and the command."""
    return {
        "machine": dataclasses.asdict(machine),
        "command": list(command),
        "scale": dataclasses.asdict(scale),
        "outcomes": [
            {
                "workload": outcome.workload,
                "broker": outcome.broker,
                "counts": outcome.counts,
                "fault": outcome.fault,
                "runs": [each.to_json() for each in outcome.measurements],
            }
            for outcome in outcomes
        ],
    }


def _notes(outcome: Outcome) -> Iterator[str]:
    """Return the reasons not to quote these figures."""
    if not outcome.counts:
        fault = outcome.fault.strip().splitlines()
        yield ": ".join([f"{outcome.broker}: THESE FIGURES DO NOT COUNT", *fault[-1:]])
    if any((each.others_cores or 0) > BUSY_CORES for each in outcome.measurements):
        yield f"{outcome.broker}: the machine was busy with other programs; measure again"


def _combine(row: _Row, outcome: Outcome) -> float | None:
    values = [value for each in outcome.measurements if (value := row.read(each)) is not None]
    return row.combine(values) if values else None


def _number(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:,.{decimals}f}"


def _ratio(value: float | None, base: float | None) -> str:
    return f"{value / base:.2f}" if value is not None and base else "-"


def _line(label: str, cells: Sequence[str]) -> str:
    return f"  {label:<{_LABEL_WIDTH}}" + "".join(f"{cell:>{_COLUMN_WIDTH}}" for cell in cells)
