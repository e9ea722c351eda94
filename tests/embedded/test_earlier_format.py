"""A data directory of format 1 that a program without a server opens first."""

import tarfile
from pathlib import Path

import pytest

from metadata.data_format import DataFormat, read_format
from offsets import Consumer, LogRoot
from tests.stored.make import ARCHIVES
from tests.threaded_server import ThreadedServer


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Return what a server of format 1 left when it was killed; `events` is a stream."""
    path = tmp_path / "data"
    with tarfile.open(ARCHIVES / "v1-2585fb2-streams-killed.tar.gz") as archive:
        archive.extractall(path, filter="data")
    return path


def test_a_program_without_a_server_upgrades_it_and_the_server_finishes_that(
    storage: Path,
) -> None:
    (storage / "logs" / "%2f" / "gone" / "0b5f3a52-7e5c-4f1e-9d34-6f0d7f9d7f11").mkdir(parents=True)
    (log,) = (storage / "logs" / "%2f" / "events").iterdir()
    orphan = storage / "logs" / "%2f" / "transient" / "1c6f3a52-7e5c-4f1e-9d34-6f0d7f9d7f22"
    orphan.mkdir(parents=True)
    (orphan / "00000000000000000000.log").write_bytes(b"a torn header")
    with LogRoot.open(storage) as root:
        assert "events" in root.names()
        assert read_format(storage) is DataFormat.UPGRADING
        # Others join while it is not finished.
        with Consumer(storage, "group", "events") as consumer:
            assert consumer.poll() is not None
    assert orphan.is_dir()
    with ThreadedServer(storage):
        assert read_format(storage) is DataFormat.CURRENT
    assert log.is_dir()
    assert not orphan.exists()
    assert list((storage / "quarantine").rglob("*.log"))
