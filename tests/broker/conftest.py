"""What the tests of the broker share."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_server.broker.storing import log_window
from tests.broker.store_bench import MakeBench, StoreBench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[MakeBench]:
    """Make store benches below `tmp_path`; the second opens what the first has written."""
    made: list[StoreBench] = []

    def make(**settings: object) -> StoreBench:
        made.append(StoreBench(tmp_path, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(autouse=True)
def _windows_stay_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let windows of a log age only where a test says so: a busy machine makes any test slow."""
    monkeypatch.setattr(log_window, "WINDOW_SECONDS", math.inf)
