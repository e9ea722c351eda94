"""Fixtures of the tests that stop a server, or cut its power."""

from pathlib import Path

import pytest

from tests.crash.power import Power, powered


@pytest.fixture
def power(tmp_path: Path) -> Power:
    """Return the file system of a data directory, which exists and is empty."""
    return powered(tmp_path / "data")
