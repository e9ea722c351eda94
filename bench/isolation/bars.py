"""The bars of isolation, and which of them our broker misses."""

from typing import Final

from bench.isolation.figures import Result

LOOP_WORST_MS: Final = 20.0
LOOP_P99_MS: Final = 3.0
DURABLE_TIMES: Final = 2.0

_BARS: Final = 5

LEGEND: Final = (
    f"bars: L loop worst <= control + {LOOP_WORST_MS:.0f} ms; l loop p99 <= control + "
    f"{LOOP_P99_MS:.0f} ms; d durable p99 <= {DURABLE_TIMES:.0f} x control; t the attack takes no "
    "longer than on RabbitMQ; w loop worst, loop p99, durable p99 not above RabbitMQ's. "
    "A bar that is missed has its letter, one that holds a dot, - is not judged"
)


def judge(result: Result, rabbitmq: Result | None) -> str:
    """Return a mark for each bar, in the order of LEGEND.

    Args:
        result: Result of our server, with at least one run.
        rabbitmq: Result of the same attack on RabbitMQ; None if it was not measured.
    """
    found, control = result.probes(), result.control()
    marks: list[tuple[str, bool | None]] = [
        ("L", found.loop.worst_ms <= control.loop.worst_ms + LOOP_WORST_MS),
        ("l", found.loop.p99_ms <= control.loop.p99_ms + LOOP_P99_MS),
        ("d", found.durable.p99_ms <= control.durable.p99_ms * DURABLE_TIMES),
    ]
    if rabbitmq and rabbitmq.runs:
        theirs = rabbitmq.probes()
        is_better = (
            found.loop.worst_ms <= theirs.loop.worst_ms
            and found.loop.p99_ms <= theirs.loop.p99_ms
            and found.durable.p99_ms <= theirs.durable.p99_ms
        )
        marks += [("t", _is_as_fast(result, rabbitmq)), ("w", is_better)]
    cells = ("-" if holds is None else "." if holds else letter for letter, holds in marks)
    return "".join(cells).ljust(_BARS, "-")


def _is_as_fast(result: Result, rabbitmq: Result) -> bool | None:
    """Compare the durations; None if they do not depend on the broker."""
    if not result.is_timed:
        return None
    # An attack that was cut off counts with its time limit.
    return result.is_finished and result.attack_seconds() <= rabbitmq.attack_seconds()
