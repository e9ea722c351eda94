"""A data directory on a network file system is taken, with a warning that names the type."""

import logging
from pathlib import Path

import pytest

from amqp_server.recovery import storage_lock
from amqp_server.recovery.storage_lock import lock_storage
from appendlog import FileSystem


@pytest.mark.parametrize(
    ("kind", "is_told"),
    [
        ("nfs4", True),
        ("cifs", True),
        ("ceph", True),
        ("fuse.sshfs", True),
        ("ext4", False),
        ("fuse", False),
        ("", False),
    ],
)
def test_a_directory_on_a_network_file_system_is_a_warning(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    is_told: bool,
) -> None:
    monkeypatch.setattr(storage_lock, "file_system_type", lambda _: kind)
    lock_storage(tmp_path / "data", FileSystem()).release()
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == is_told
    if is_told:
        assert f"path={tmp_path / 'data'} type={kind} note=nothing keeps" in caplog.text


def test_a_type_that_cannot_be_read_is_no_reason_not_to_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> str:
        raise OSError(path)

    monkeypatch.setattr(storage_lock, "file_system_type", fail)
    lock_storage(tmp_path, FileSystem()).release()
    assert not caplog.records
