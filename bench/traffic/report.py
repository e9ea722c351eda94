"""The traffic table as text and as JSON."""

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import Any, Final

from bench.brokers import OURS, RABBITMQ
from bench.machine import Machine
from bench.traffic.figures import LIMIT_CORES
from bench.traffic.result import TrafficResult
from bench.traffic.row import TO_CONFIRM

_TITLE_WIDTH: Final = 96
_BROKER_WIDTH: Final = 14
_WIDTHS: Final = (11, 20, 9, 9, 11, 11, 8, 8, 12, 6)


def format_head() -> str:
    """Return the heading of the columns."""
    groups = " " * (_BROKER_WIDTH + sum(_WIDTHS[:4])) + "CPU, us a message".rjust(22)
    groups += "cores".rjust(16)
    heads = ["median/s", "(min - max)", "p50 ms", "p99 ms", "broker", "generator"]
    heads += ["broker", "gen.", "messages", "LOST"]
    return f"{groups}\n{'':<{_BROKER_WIDTH}}{_cells(heads)}"


def format_row(results: Sequence[TrafficResult]) -> str:
    """Return a row: its title, a line for each broker, and the ratio of ours to RabbitMQ."""
    row = results[0].row
    kind = "" if row.latency_kind == TO_CONFIRM else f"; p50, p99: {row.latency_kind}"
    unit = "" if row.unit == "msg/s" else f"; {row.unit}"
    lines = textwrap.wrap(
        f"{row.key}: {row.title}{unit}{kind}", _TITLE_WIDTH, subsequent_indent="  "
    )
    if all(result.is_missing for result in results):
        return "\n".join([*lines, f"  not measured: {results[0].fault}"])
    lines += [_format_broker(result) for result in results]
    if (ratio := ratio_of(results)) is not None:
        lines.append(f"  {'ratio':<{_BROKER_WIDTH - 2}}{f'{ratio:.2f}x':>{_WIDTHS[0]}}")
    return "\n".join(lines)


def ratio_of(results: Sequence[TrafficResult]) -> float | None:
    """Return our messages a second divided by RabbitMQ's; None if one of them does not count."""
    rates = {
        result.broker: result.per_second
        for result in results
        if not result.is_wrong and result.per_second
    }
    ours, theirs = rates.get(OURS), rates.get(RABBITMQ)
    return ours / theirs if ours and theirs else None


def format_notes(results: Sequence[TrafficResult], seed: int) -> list[str]:
    """Return the lines below the table: meanings, seed, reasons to doubt figures."""
    notes = [
        "CPU of the generator is in user and kernel mode, with its sockets; messages: the sum of "
        "all runs; LOST: lost, repeated, corrupt or out of order",
        f"seed {seed}: the same seed gives the same messages (--seed)",
    ]
    for text, chosen in (
        ("figures that do not count", [each for each in results if each.is_wrong]),
        (
            f"a process of the generator used more than {LIMIT_CORES:.0%} of a core, and may be "
            "the limit",
            [each for each in results if each.is_generator_limit],
        ),
        (
            "the machine was busy with other programs; measure again",
            [each for each in results if each.is_busy],
        ),
    ):
        if chosen:
            notes.append(
                f"{text}: " + ", ".join(f"{each.row.key} ({each.broker})" for each in chosen)
            )
    return notes


def to_json(
    machine: Machine,
    file_system: str,
    command: Sequence[str],
    seed: int,
    results: Sequence[TrafficResult],
    *,
    is_quick: bool,
    is_compiled: bool,
) -> dict[str, Any]:
    """Return all figures of all runs, with the machine and the command."""
    return {
        "machine": dataclasses.asdict(machine),
        "file_system": file_system,
        "command": list(command),
        "seed": seed,
        "is_quick": is_quick,
        "is_generator_compiled": is_compiled,
        "results": [result.to_json() for result in results],
    }


def _format_broker(result: TrafficResult) -> str:
    name = f"  {result.broker}"
    if not result.runs:
        return f"{name:<{_BROKER_WIDTH}}  failed: {result.fault}"
    rates = [run.per_second for run in result.runs]
    cells = (
        _number(result.per_second),
        f"({_number(min(rates))} - {_number(max(rates))})",
        _number(result.p50_ms, 2),
        _number(result.p99_ms, 2),
        _number(result.median(lambda run: run.server_us), 2),
        _number(result.median(lambda run: run.generator_us), 2),
        _number(result.median(lambda run: run.server_cores), 2),
        _number(result.median(lambda run: run.generator_cores), 2),
        _number(sum(run.messages for run in result.runs)),
        _number(result.faults),
    )
    doubts = ["DOES NOT COUNT"] if result.is_wrong else []
    doubts += ["generator-bound"] if result.is_generator_limit else []
    doubts += ["busy machine"] if result.is_busy else []
    doubts += [f"failed: {result.fault}"] if result.fault else []
    return f"{name:<{_BROKER_WIDTH}}{_cells(cells)}  {'; '.join(doubts)}".rstrip()


def _number(value: float | None, decimals: int = 0) -> str:
    return "-" if value is None else f"{value:,.{decimals}f}"


def _cells(texts: Sequence[str]) -> str:
    return "".join(text.rjust(width) for text, width in zip(texts, _WIDTHS, strict=True))
