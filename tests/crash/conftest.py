"""Fixtures of the tests that stop a server, or cut its power."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.power import Power, powered


@pytest.fixture(scope="session")
def disk_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Make a directory where the system keeps temporary files, and keep it if a test fails."""
    path = Path(tempfile.mkdtemp(prefix="amqp-server-crash-"))
    yield path
    if not request.session.testsfailed:
        shutil.rmtree(path)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, disk_path: Path) -> Path:
    """Make a directory on a disk: those of `make test` are in memory, where no sync takes time.

    It is gone at the end of the run only: to make files soon after others were removed is slow on
    ext4, which looks for an inode that was not in use a moment ago.
    """
    return Path(tempfile.mkdtemp(prefix=f"{request.node.originalname[:30]}-", dir=disk_path))


@pytest.fixture
def power(tmp_path: Path) -> Power:
    """Return the file system of a data directory, which exists and is empty."""
    return powered(tmp_path / "data")
