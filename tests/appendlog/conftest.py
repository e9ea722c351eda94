from collections.abc import Iterator

import pytest

from tests.appendlog.builders import OPENED


@pytest.fixture(autouse=True)
def close_what_a_test_left_open() -> Iterator[None]:
    """Close files after each test, also of logs that the test abandoned like a crash does."""
    yield
    while OPENED:
        OPENED.pop().close()
