"""Logs that lie in an object store are read like those on a disk, and no more than needed."""

import os
import pickle
from pathlib import Path

import pytest

from appendlog.reader import LogReader
from appendlog.spark.errors import QueueNotFoundError, StorageNotFoundError, StoreError
from appendlog.spark.objects.connection import connect
from appendlog.spark.objects.location import Location, storage_path
from appendlog.spark.objects.object_filesystem import ObjectFileSystem, filesystem_of
from appendlog.spark.objects.store_options import StoreOptions
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.queues import find_queue, list_queues
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.object_stores import LoopbackS3, new_memory, upload

COUNT = 3000
PER_CHUNK = 50


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredQueue:
    """Return a queue of several segments, on this machine."""
    stored = store_queue(tmp_path_factory.mktemp("data"), segment_bytes=64 << 10)
    stored.append(plain_messages(COUNT), step=PER_CHUNK)
    stored.close()
    assert len(stored.segments()) > 3
    return stored


@pytest.fixture(scope="module", params=["s3", "memory"])
def archive(request: pytest.FixtureRequest, stored: StoredQueue) -> tuple[Path, StoreOptions]:
    """Return a copy of its data directory in a store."""
    if request.param == "memory":
        url, options = f"{new_memory()}/data", StoreOptions()
    else:
        s3: LoopbackS3 = request.getfixturevalue("s3")
        url, options = f"s3://{s3.new_bucket()}/backups/data", s3.options
    upload(stored.storage_path, url, options)
    return storage_path(url), options


def read(reader: LogReader, start: int | None = None, end: int | None = None) -> list[bytes]:
    return [message for batch in reader.read(start, end) for message in batch.messages]


def test_an_archive_has_the_same_messages(
    archive: tuple[Path, StoreOptions], stored: StoredQueue
) -> None:
    path, options = archive
    log = find_queue(path, "/", "orders", options)
    assert [each.queue for each in list_queues(path, "/", options)] == ["orders"]
    with open_reader(log) as there, open_reader(stored.location) as here:
        assert (there.log_start_offset, there.log_end_offset) == (0, COUNT)
        assert read(there) == read(here)
        assert there.plan_splits(10, COUNT - 10, 1000) == here.plan_splits(10, COUNT - 10, 1000)
        time_ns = next(here.read(1700, 1701)).timestamps_ns[0]
        assert there.first_offset_at(time_ns) == here.first_offset_at(time_ns)


def test_a_log_of_an_archive_is_opened_in_another_process(
    archive: tuple[Path, StoreOptions], stored: StoredQueue
) -> None:
    path, options = archive
    log = pickle.loads(pickle.dumps(find_queue(path, "/", "orders", options)))
    with open_reader(log) as reader:
        assert len(read(reader, 5, 12)) == 7


def test_a_hundred_offsets_cost_one_index_and_two_chunks(
    archive: tuple[Path, StoreOptions], stored: StoredQueue
) -> None:
    path, options = archive
    log = find_queue(path, "/", "orders", options)
    # A file system of its own: the counters begin at 0.
    location = Location.of(path)
    assert location is not None
    files = ObjectFileSystem(connect(location, options))
    with LogReader(log.directory, files) as reader:
        opened_requests, opened_bytes = files.request_count, files.read_bytes
        start = COUNT // 2 // PER_CHUNK * PER_CHUNK
        [split] = reader.plan_splits(start, start + 100)
        assert len([m for batch in reader.read_split(split) for m in batch.messages]) == 100

    segment = max(p for p in stored.segments() if int(p.stem) <= start)
    index_bytes = segment.with_suffix(".index").stat().st_size
    chunk_bytes = (split.end_position - split.start_position) // 2
    read_bytes = files.read_bytes - opened_bytes
    assert 2 * chunk_bytes + index_bytes <= read_bytes <= 3 * chunk_bytes + index_bytes + 2048
    assert read_bytes < segment.stat().st_size // 4
    # Open, footer or header, index, check of the first chunk, chunks.
    assert files.request_count - opened_requests <= 8
    assert opened_requests <= 12


def test_an_archive_is_never_written(archive: tuple[Path, StoreOptions]) -> None:
    path, options = archive
    files = filesystem_of(path, options)
    for change in (
        lambda: files.open(path / "x", os.O_RDWR | os.O_CREAT),
        lambda: files.write_file(path / "x", b""),
        lambda: files.unlink(path / "metadata"),
        lambda: files.rename(path / "metadata", path / "x"),
        lambda: files.mkdir(path / "x"),
        lambda: files.rmdir(path / "x"),
    ):
        with pytest.raises(OSError, match="only read"):
            change()


def test_what_an_archive_lacks_is_named(archive: tuple[Path, StoreOptions]) -> None:
    path, options = archive
    with pytest.raises(QueueNotFoundError, match=r"nearest of 1: orders"):
        find_queue(path, "/", "order", options)
    with pytest.raises(StorageNotFoundError, match=r"no such data directory"):
        find_queue(path.parent / "nothing", "/", "orders", options)
    with pytest.raises(StorageNotFoundError, match="no metadata folder"):
        find_queue(path / "logs", "/", "orders", options)


def test_a_store_that_cannot_be_reached_is_no_missing_queue(s3: LoopbackS3) -> None:
    values = s3.values | {"endpoint": "http://127.0.0.1:9", "retries": "0"}
    with pytest.raises(StoreError, match=r"^s3://lake/data"):
        find_queue(storage_path("s3://lake/data"), "/", "orders", StoreOptions.of(values))


def test_a_mapped_part_of_an_object_is_that_part(archive: tuple[Path, StoreOptions]) -> None:
    path, options = archive
    log = find_queue(path, "/", "orders", options)
    files = log.filesystem
    name = next(name for name in sorted(files.listdir(log.directory)) if name.endswith(".log"))
    descriptor = files.open(log.directory / name, os.O_RDONLY)
    try:
        size = files.size(descriptor)
        assert size == files.file_size(log.directory / name)
        whole = files.read_all(descriptor, size, 0)
        with files.map(descriptor, 100, 4096) as part:
            assert part[:] == whole[4096:4196]
        buffer = bytearray(64)
        assert files.read_into(descriptor, memoryview(buffer), size - 10) == 10
        assert buffer[:10] == whole[-10:]
        with pytest.raises(ValueError, match="the object ends at"):
            files.map(descriptor, 100, size - 10)
    finally:
        files.close(descriptor)
