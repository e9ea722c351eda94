from collections.abc import Iterator
from pathlib import Path

import pytest

from offsets import LogRoot
from tests.appendlog.conftest import close_what_a_test_left_open
from tests.cli.conftest import clean_environment
from tests.embedded.consumers import SMALL_SEGMENTS

__all__ = ["clean_environment", "close_what_a_test_left_open"]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[LogRoot]:
    with LogRoot.open(tmp_path, SMALL_SEGMENTS) as opened:
        yield opened
