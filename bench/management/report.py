"""The lines and the JSON of the report."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from bench.management.bars import Judged
from bench.management.phase import PhaseFigures
from bench.management.rounds import Measured, Plan
from bench.process_stats import BUSY_CORES


def phase_lines(title: str, figures: PhaseFigures) -> Iterator[str]:
    """Return the lines of one phase."""
    yield (
        f"{title}: {figures.published:,} messages in {figures.seconds:.1f} s, LOST {figures.lost}"
        + (f", {figures.repeated} repeated" if figures.repeated else "")
    )
    yield (
        f"  publish to confirm  p50 {figures.confirms.p50 * 1e3:.2f} ms, "
        f"p99 {figures.confirms.p99 * 1e3:.2f} ms"
    )
    yield (
        f"  broker              {figures.broker_cpu_microseconds:.2f} us CPU a message, "
        f"RSS {figures.broker_rss_bytes / 1e6:.1f} MB"
    )
    yield (
        f"  management          {figures.management_cpu_seconds / figures.seconds * 100:.1f} % of "
        f"a core, RSS {figures.management_rss_bytes / 1e6:.1f} MB"
    )
    for kind, latency in figures.http.items():
        yield (
            f"  HTTP {kind:<15}p50 {latency.p50 * 1e3:.1f} ms, p99 {latency.p99 * 1e3:.1f} ms, "
            f"{figures.http_requests[kind]} requests"
        )
    if figures.others_cores is not None and figures.others_cores > BUSY_CORES:
        yield f"  others kept {figures.others_cores:.2f} cores busy: do not quote these figures"


def to_json(plan: Plan, machine: object, measured: Measured, judged: list[Judged]) -> Any:  # noqa: ANN401 - a JSON value
    """Return all figures as a JSON value.

    Args:
        plan: What was measured.
        machine: Description of the machine, a JSON value.
        measured: The figures.
        judged: The bars.
    """
    return {
        "machine": machine,
        "plan": asdict(plan),
        "idle_management_bytes": measured.idle_management_bytes,
        "phases": [asdict(each) for each in measured.phases],
        "bars": [asdict(each) | {"is_reached": each.is_reached} for each in judged],
    }
