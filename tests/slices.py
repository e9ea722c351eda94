"""`--slice-seconds`: how long a slice of long work is in the process of the tests.

With 0 each slice is over after one step, as on a very slow machine, and with 1,000 none ever is. A
test whose result depends on the machine's speed fails with one of the two: `make test-slices`.
Processes that tests start have slices of their own, so tests of these are left out.
"""

import pytest

from amqp_server.base import time_slice

PROCESSES = frozenset({"server", "start_server", "swept_server"})
"""Fixtures that give a process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Define the option."""
    parser.addoption(
        "--slice-seconds",
        type=float,
        help="length of a slice in the process of the tests; tests of other processes are left out",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set the length, before anything takes a slice."""
    if config.option.slice_seconds is not None:
        time_slice.SLICE_SECONDS = config.option.slice_seconds


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has slices of its own."""
    if config.option.slice_seconds is None:
        return
    left_out = [item for item in items if has_process(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not has_process(item)]


def has_process(item: pytest.Item) -> bool:
    """Return whether a test asks for a process."""
    return not PROCESSES.isdisjoint(getattr(item, "fixturenames", ()))
