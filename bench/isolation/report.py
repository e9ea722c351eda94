"""The table of attacks, and all figures as JSON."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from bench.brokers import RABBITMQ
from bench.isolation.bars import LEGEND, judge
from bench.isolation.figures import ProbeFigures, Result
from bench.isolation.probes import LAST_ANSWER_SECONDS_MAX
from bench.machine import Machine
from bench.process_stats import BUSY_CORES

_NAME_WIDTH: Final = 25
_BROKER_WIDTH: Final = 10
_MIB: Final = 2**20
_WIDTHS: Final = (8, 7, 8, 9, 7)
_PROBE_WIDTHS: Final = (8, 9, 9, 9, 9)


def format_head() -> str:
    """Return the heading of the columns."""
    groups = (
        " " * (_NAME_WIDTH + _BROKER_WIDTH + sum(_WIDTHS))
        + "  | loop, ms".ljust(3 + sum(_PROBE_WIDTHS))
        + "  | durable, ms"
    )
    probe = _cells(("p50", "p99", "control", "worst", "control"), _PROBE_WIDTHS)
    figures = _cells(("s", "CPU s", "RSS MiB", "anon MiB", "stop s"), _WIDTHS)
    names = "attack".ljust(_NAME_WIDTH) + "broker".ljust(_BROKER_WIDTH)
    return f"{groups}\n{names}{figures}  |{probe}  |{probe}  | bars"


def format_row(result: Result, rabbitmq: Result | None) -> str:
    """Return the row of an attack and a broker, with the medians of its runs.

    Args:
        result: Result of the attack and the broker.
        rabbitmq: Result of the same attack on RabbitMQ, for the bars; None if it was not measured.
    """
    names = result.attack.ljust(_NAME_WIDTH) + result.broker.ljust(_BROKER_WIDTH)
    if not result.runs:
        return f"{names}  {result.fault}"
    cpu_seconds = result.server_cpu_seconds()
    figures = (
        ("" if result.is_finished else ">") + f"{result.attack_seconds():.2f}",
        "-" if cpu_seconds is None else f"{cpu_seconds:.2f}",
        _mib(result.peak_rss_bytes()),
        _mib(result.peak_anon_bytes()),
        f"{result.stop_seconds():.1f}",
    )
    found, control = result.probes(), result.control()
    probes = "".join(
        "  |" + _cells(_probe(each, without), _PROBE_WIDTHS)
        for each, without in ((found.loop, control.loop), (found.durable, control.durable))
    )
    bars = "" if result.broker == RABBITMQ else judge(result, rabbitmq)
    fault = f"  {result.fault}" if result.fault else ""
    return f"{names}{_cells(figures, _WIDTHS)}{probes}  | {bars}{fault}".rstrip()


def format_notes(results: Sequence[Result]) -> list[str]:
    """Return the meaning of the columns, and the reasons to doubt figures."""
    notes = [
        "s: the attack's duration, > if it was cut off; CPU, RSS, anon: of the broker; RSS and "
        "anon are its peaks with and without mapped files; stop: from SIGTERM to its end, killed "
        "after 30 s",
        LEGEND,
    ]
    busy: list[str] = []
    for result in results:
        if not result.runs:
            continue
        if any((run.others_cores or 0.0) > BUSY_CORES for run in result.runs):
            busy.append(f"{result.attack} ({result.broker})")
        unanswered = max(
            each.unanswered for run in result.runs for each in (run.probes.loop, run.probes.durable)
        )
        if unanswered:
            notes.append(
                f"{result.attack}, {result.broker}: {unanswered} round trips had no answer "
                f"{LAST_ANSWER_SECONDS_MAX:.0f} s after the attack; they count up to there"
            )
    if busy:
        notes.append(f"the machine was busy with other programs; measure again: {', '.join(busy)}")
    return notes


def to_json(
    machine: Machine, command: Sequence[str], results: Sequence[Result], *, is_quick: bool
) -> dict[str, Any]:
    """Return all figures of all runs, with the machine and the command."""
    return {
        "machine": dataclasses.asdict(machine),
        "command": list(command),
        "is_quick": is_quick,
        "results": [dataclasses.asdict(result) for result in results],
    }


def _mib(size: float | None) -> str:
    return "-" if size is None else f"{size / _MIB:,.0f}"


def _probe(found: ProbeFigures, control: ProbeFigures) -> tuple[str, ...]:
    values = (found.p50_ms, found.p99_ms, control.p99_ms, found.worst_ms, control.worst_ms)
    return tuple(f"{value:,.1f}" for value in values)


def _cells(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(text.rjust(width) for text, width in zip(texts, widths, strict=True))
