"""The rule finds limits that a busy machine may reach, and nothing else."""

from __future__ import annotations

import pytest

from tests.lint.short_waits import short_waits


@pytest.mark.parametrize(
    "line",
    [
        "result.get(timeout=5)",
        "process.wait(10)",
        "thread.join(59.9)",
        "future.result(1)",
        "client.settimeout(0.5)",
        "limit = asyncio.timeout(2)",
        "found = asyncio.wait_for(x, 3)",
        "found = asyncio.wait_for(x, timeout=3)",
        "server.wait_until(x, seconds_max=30)",
        "START_SECONDS_MAX = 20",
        "SECONDS_MAX: Final = 8.0",
        "_ANSWER_TIMEOUT = 8.0",
        "def f(x, timeout=5): ...",
        "def f(x, *, seconds_max=5): ...",
    ],
)
def test_a_limit_below_a_minute_is_found(line: str) -> None:
    assert [found.line for found in short_waits(f"x = 1\n{line}\n")] == [2]


@pytest.mark.parametrize(
    "line",
    [
        "result.get(timeout=60)",
        "result.get(timeout=HANG_SECONDS)",
        "queue.get(timeout=0)",
        "stop.wait(0.01)",
        "process.wait()",
        "', '.join(names)",
        "os.path.join('a', '5')",
        "asyncio.wait_for(x, 60)",
        "SLICE_SECONDS = 5",
        "Limits(handshake_seconds_max=0.05)",
        "def f(x, timeout=60, *, seconds_max=HANG_SECONDS): ...",
        "result.get(timeout=5)  # short: no answer comes",
    ],
)
def test_anything_else_is_left_alone(line: str) -> None:
    assert short_waits(f"{line}\n") == []
