"""The upgrade of a data directory of an earlier format, with every operation interrupted."""

import errno
import json
import random
from pathlib import Path
from typing import Any

import pytest

from metadata.data_format import (
    FORMAT_NAME,
    FORMAT_VERSION,
    DataFormat,
    read_format,
    write_format,
)
from metadata.directory_lock import DirectoryLock
from metadata.document import Document, decode_document
from metadata.document_files import DocumentFiles
from metadata.errors import MetadataError, StorageLockedError
from metadata.loading import load_documents
from metadata.paths import document_path
from metadata.upgrade import upgrade_directory
from tests.faults.faulty_filesystem import FaultyFileSystem, StoppedError

pytestmark = pytest.mark.crash

DOCUMENTS = [
    Document("queues", "/", "a", {"number": 1}),
    Document("queues", "/", "b", {"number": 2}),
    Document("vhosts", "", "/", {}),
]


def write_earlier(storage: Path) -> None:
    """Make a data directory as a program of format 1 leaves it."""
    storage.mkdir(parents=True)
    (storage / "FORMAT").write_text("1\n")
    for document in DOCUMENTS:
        path = document_path(storage / "metadata", document.kind, document.vhost, document.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        fields: dict[str, Any] = {
            "schema": 1,
            "kind": document.kind,
            "vhost": document.vhost,
            "name": document.name,
            "body": document.body,
        }
        path.write_text(json.dumps(fields))


def signed(storage: Path) -> list[str]:
    """Return the names of the documents that have a checksum."""
    return [
        path.name
        for path in sorted((storage / "metadata").glob("*/*/*.json"))
        if b"crc32c" in path.read_bytes()
    ]


def check_whole(storage: Path) -> None:
    """Check that nothing is missing, and that earlier programs refuse what they cannot read."""
    if signed(storage):
        assert read_format(storage) is not DataFormat.EARLIER
    is_current = read_format(storage) is DataFormat.CURRENT
    report = load_documents(storage / "metadata", DocumentFiles(), accepts_unsigned=not is_current)
    assert report.documents == DOCUMENTS
    assert report.unreadable == []


def check_upgraded(storage: Path) -> None:
    assert read_format(storage) is DataFormat.CURRENT
    assert load_documents(storage / "metadata", DocumentFiles()).documents == DOCUMENTS


def test_an_upgrade_signs_every_document_and_happens_once(tmp_path: Path) -> None:
    storage = tmp_path / "data"
    write_earlier(storage)
    upgrade_directory(storage)
    check_upgraded(storage)
    assert signed(storage) == ["a.json", "b.json", "%2f.json"]
    upgrade_directory(storage)
    # From now on one without a checksum is damage.
    path = document_path(storage / "metadata", "queues", "/", "a")
    path.write_text(path.read_text().replace('"crc32c"', '"crc32d"'))
    report = load_documents(storage / "metadata", DocumentFiles())
    assert [each.path for each in report.unreadable] == [path]


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_a_power_cut_at_any_operation_leaves_what_the_next_upgrade_resumes(
    tmp_path: Path, seed: int | None
) -> None:
    for stop_at in range(1000):
        storage = tmp_path / str(stop_at) / "data"
        write_earlier(storage)
        filesystem = FaultyFileSystem(storage.parent, stop_at, StoppedError())
        try:
            upgrade_directory(storage, filesystem)
        except StoppedError:
            filesystem.power_cut(None if seed is None else random.Random(f"{seed} {stop_at}"))
            check_whole(storage)
            upgrade_directory(storage)
            check_upgraded(storage)
        else:
            assert stop_at > len(DOCUMENTS)
            check_upgraded(storage)
            return
    raise AssertionError


def test_a_disk_error_at_any_operation_is_told_and_the_next_upgrade_resumes(
    tmp_path: Path,
) -> None:
    for fault_at in range(1000):
        storage = tmp_path / str(fault_at) / "data"
        write_earlier(storage)
        filesystem = FaultyFileSystem(storage.parent, fault_at, errno.EIO, failing_operations=1)
        try:
            upgrade_directory(storage, filesystem)
        except MetadataError:
            check_whole(storage)
            upgrade_directory(storage)
        else:
            # It may have failed to remove a temporary file, which harms nobody.
            if fault_at > len(filesystem.operations):
                return
        check_upgraded(storage)
    raise AssertionError


def test_a_document_that_the_disk_refuses_to_read_leaves_the_upgrade_unfinished(
    tmp_path: Path,
) -> None:
    class Refusing(FaultyFileSystem):
        def read_file(self, path: Path, max_bytes: int) -> bytes:
            if path.name == "a.json":
                raise PermissionError(errno.EACCES, "refused")
            return super().read_file(path, max_bytes)

    storage = tmp_path / "data"
    write_earlier(storage)
    upgrade_directory(storage, Refusing(tmp_path))
    assert read_format(storage) is DataFormat.UPGRADING
    assert signed(storage) == ["b.json", "%2f.json"]
    check_whole(storage)
    upgrade_directory(storage)
    check_upgraded(storage)


def test_a_damaged_document_does_not_keep_an_upgrade_from_being_finished(tmp_path: Path) -> None:
    storage = tmp_path / "data"
    write_earlier(storage)
    path = document_path(storage / "metadata", "queues", "/", "a")
    path.write_bytes(b"{")
    upgrade_directory(storage)
    assert read_format(storage) is DataFormat.CURRENT
    assert path.read_bytes() == b"{"


def test_an_upgrade_needs_the_directory_alone(tmp_path: Path) -> None:
    storage = tmp_path / "data"
    write_earlier(storage)
    with DirectoryLock.acquire(storage), pytest.raises(StorageLockedError):
        upgrade_directory(storage)
    assert signed(storage) == []


def test_a_document_that_was_upgraded_is_read_by_its_checksum(tmp_path: Path) -> None:
    storage = tmp_path / "data"
    write_earlier(storage)
    upgrade_directory(storage)
    path = document_path(storage / "metadata", "queues", "/", "b")
    assert decode_document(path.read_bytes()) == DOCUMENTS[1]


def test_where_a_server_has_run_its_next_start_finishes_the_upgrade(tmp_path: Path) -> None:
    """It sets aside the logs of transient queues: in a finished directory they are damage."""
    storage = tmp_path / "data"
    write_earlier(storage)
    (storage / "recovery.json").write_text("{}")
    upgrade_directory(storage)
    assert read_format(storage) is DataFormat.UPGRADING
    assert len(signed(storage)) == len(DOCUMENTS)
    check_whole(storage)


def test_a_disk_that_refuses_to_write_the_format_keeps_no_temporary_file(tmp_path: Path) -> None:
    for fault_at in range(1000):
        storage = tmp_path / str(fault_at)
        storage.mkdir()
        (storage / FORMAT_NAME).write_text("1\n")
        filesystem = FaultyFileSystem(storage, fault_at, errno.EIO, failing_operations=1)
        try:
            write_format(storage, FORMAT_VERSION, filesystem)
        except OSError:
            assert [path.name for path in storage.iterdir()] == [FORMAT_NAME]
        else:
            return
    raise AssertionError
