"""One task of an export: splits of a log to files, and the account of every offset."""

import base64
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crc32c import crc32c

from appendlog import Append, encode_chunk
from appendlog.spark.decoding import log_batches
from appendlog.spark.exporting.files import row_groups
from appendlog.spark.exporting.files.file_task import FileTask, TaskResult, write_files
from appendlog.spark.exporting.files.parquet_format import ParquetFormat
from appendlog.spark.exporting.layout import part_name
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.settlement import OffsetChoice
from appendlog.split_reader import Split
from tests.spark.builders import StoredQueue, all_kinds_of_messages, plain_messages, store_queue
from tests.spark.damage import flip_texts
from tests.spark.plain_reader import Row, expected_rows, file_rows

FOLDER = "work/job"


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path / "data", segment_bytes=4096)
    yield queue
    queue.close()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def splits(
    stored: StoredQueue, start: int | None = None, end: int | None = None
) -> tuple[Split, ...]:
    with open_reader(stored.location) as reader:
        return tuple(reader.plan_splits(start, end, 1000))


def task(stored: StoredQueue, out: Path, *pieces: Split) -> FileTask:
    every = pieces or splits(stored)
    return FileTask(stored.location, every, LocalStore(out), FOLDER, ParquetFormat())


def rows_of(out: Path, result: TaskResult) -> list[Row]:
    return [row for file in result.files for row in file_rows(out / file.path)]


def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_batches, "BATCH_RECORDS", 16)
    monkeypatch.setattr(row_groups, "GROUP_ROWS", 40)


def test_a_file_holds_what_a_plain_reader_finds(stored: StoredQueue, out: Path) -> None:
    stored.append(all_kinds_of_messages(), step=7)
    stored.append(plain_messages(200), step=9)
    made = task(stored, out)
    assert len(made.splits) > len(stored.segments()) > 3
    result = write_files(made)
    assert rows_of(out, result) == expected_rows(stored.location)
    (file,) = result.files
    data = (out / file.path).read_bytes()
    times = [row["timestamp"] * 1000 for row in expected_rows(stored.location)]
    assert file.path.startswith(f"{FOLDER}/")
    assert file.target == part_name(0, file.end_offset)
    assert (file.start_offset, file.end_offset) == (0, stored.log.log_end_offset)
    assert (file.size_bytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert (file.min_timestamp_ns, file.max_timestamp_ns) == (min(times), max(times))
    assert (file.missing, file.corrupt, file.excluded) == (0, 0, 0)


def test_files_end_at_the_target_size_and_tile_the_task(
    stored: StoredQueue, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_groups(monkeypatch)
    stored.append(plain_messages(1000), step=10)
    stored.skip(5)
    whole = write_files(task(stored, out))
    assert len(whole.files) == 1
    target = whole.files[0].size_bytes // 10
    made = replace(task(stored, out), target_bytes=target, subfolder="date=2026-11-21/")
    result = write_files(made)
    assert len(result.files) > 3
    assert rows_of(out, result) == expected_rows(stored.location)
    edges = [(file.start_offset, file.end_offset) for file in result.files]
    assert edges[0][0] == 0
    assert edges[-1][1] == 1005
    assert [end for _, end in edges[:-1]] == [start for start, _ in edges[1:]]
    for file in result.files:
        name = part_name(file.start_offset, file.end_offset)
        assert file.target == f"date=2026-11-21/{name}"
    for file in result.files[:-1]:
        assert file.size_bytes >= target


def test_offsets_without_a_message_at_the_end_belong_to_the_last_file(
    stored: StoredQueue, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_groups(monkeypatch)
    stored.append(plain_messages(40), step=10)
    stored.skip(100)
    result = write_files(replace(task(stored, out), target_bytes=1))
    (file,) = result.files
    assert (file.end_offset, file.rows, file.missing) == (140, 40, 100)


def test_the_same_task_makes_the_same_bytes(
    stored: StoredQueue, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_groups(monkeypatch)
    stored.append(plain_messages(300), step=7)
    made = replace(task(stored, out), target_bytes=6000)
    first, second = (write_files(made).files for _ in range(2))
    assert [file.sha256 for file in first] == [file.sha256 for file in second]
    assert [file.target for file in first] == [file.target for file in second]
    assert not {file.path for file in first} & {file.path for file in second}
    assert pq.ParquetFile(out / first[0].path).num_row_groups > 1


def test_bodies_larger_than_a_batch_are_whole(
    stored: StoredQueue, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_batches, "BATCH_BYTES", 1000)
    monkeypatch.setattr(row_groups, "GROUP_BYTES", 5000)
    sizes = [0, 10_000, 3, 999, 1000, 1001, 0, 70_000]
    stored.append([plain_messages(1, at, size)[0] for at, size in enumerate(sizes)], step=3)
    rows = rows_of(out, write_files(task(stored, out)))
    assert [len(row["value"]) for row in rows] == [max(size, 1) for size in sizes]
    assert rows == expected_rows(stored.location)


def test_offsets_that_were_never_written_are_counted_as_gaps(
    stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(10))
    stored.skip(5)
    stored.append(plain_messages(10))
    stored.skip(7)
    result = write_files(task(stored, out))
    (file,) = result.files
    assert (file.rows, file.missing, result.account.gaps) == (20, 12, [(10, 15), (25, 32)])
    metadata = pq.read_metadata(out / file.path).metadata
    assert metadata[b"amqplog.gaps"] == b"[[10, 15], [25, 32]]"
    assert metadata[b"amqplog.rows"] == b"20"
    assert metadata[b"amqplog.incarnation"] == str(stored.location.incarnation).encode()


def test_nothing_but_gaps_is_no_file(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(1))
    stored.skip(9)
    result = write_files(task(stored, out, *splits(stored, 5)))
    assert result.files == []
    assert (result.account.missing, result.account.gaps) == (5, [(5, 10)])


def test_what_was_not_asked_for_is_no_row_and_is_counted(
    stored: StoredQueue, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_groups(monkeypatch)
    stored.append(plain_messages(100), step=10)
    stored.skip(10)
    stored.append(plain_messages(190), step=10)
    choice = OffsetChoice(((3, 7), (50, 51), (95, 112), (200, 240)))
    wanted = [
        split for split in splits(stored) if choice.count(split.start_offset, split.end_offset)
    ]
    assert len(wanted) < len(splits(stored))
    result = write_files(replace(task(stored, out, *wanted), choice=choice))
    offsets = [row["offset"] for row in rows_of(out, result)]
    assert offsets == [*range(3, 7), 50, *range(95, 100), *range(110, 112), *range(200, 240)]
    account = result.account
    assert (account.rows, account.missing) == (len(offsets), 10)
    assert account.excluded == account.end_offset - account.start_offset - len(offsets) - 10
    (file,) = result.files
    assert file.excluded == account.excluded


def damage(stored: StoredQueue, text: bytes) -> Path:
    """Flip a bit in the segment that has a text; return it."""
    for path in stored.segments():
        if text in path.read_bytes():
            flip_texts(path, text)
            return path
    raise AssertionError(text)


def test_damage_ends_a_task_and_names_segment_offset_and_position(
    stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(40), step=10)
    path = damage(stored, b"15....")
    result = write_files(task(stored, out))
    assert result.files == []
    assert result.damage is not None
    assert path.name in result.damage
    assert "offset 10" in result.damage
    assert "position " in result.damage
    assert not list(out.rglob("*.parquet"))


def test_damage_that_is_skipped_costs_its_chunk_and_is_kept(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(40), step=10)
    path = damage(stored, b"15....")
    result = write_files(replace(task(stored, out), skips_damage=True))
    assert result.damage is None
    offsets = [row["offset"] for row in rows_of(out, result)]
    assert offsets == [*range(10), *range(20, 40)]
    (file,) = result.files
    assert (file.rows, file.corrupt, file.missing) == (30, 10, 0)
    (corrupt,) = result.corrupt
    assert (corrupt.start, corrupt.end, corrupt.segment) == (10, 20, path.name)
    assert corrupt.path is not None
    assert corrupt.path.startswith("_corrupt/queue=orders/")
    kept = json.loads((out / corrupt.path).read_bytes())
    octets = path.read_bytes()[corrupt.position : corrupt.end_position]
    assert base64.b64decode(kept["bytes"]) == octets
    assert b"14...." in octets
    assert (kept["start_offset"], kept["end_offset"]) == (10, 20)
    assert kept["reason"] == corrupt.reason


def no_message(stored: StoredQueue) -> None:
    """Append a chunk with a good CRC whose first record is no message."""
    at = stored.log.log_end_offset
    chunk = bytearray(encode_chunk(plain_messages(2), at, None, 1, None, stored.log.identity.salt))
    # The exchange's length: the message now ends inside its route, and the CRC is right.
    chunk[chunk.index(b"\x04shop")] = 255
    chunk[4:8] = crc32c(bytes(chunk[8:])).to_bytes(4, "little")
    stored.log.append(Append([bytes(chunk)], at + 2, sync=True))


def test_a_record_that_is_no_message_is_damage(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(3))
    no_message(stored)
    result = write_files(task(stored, out))
    assert result.files == []
    assert result.damage is not None
    assert "offset 3" in result.damage
    assert stored.segments()[-1].name in result.damage
    skipped = write_files(replace(task(stored, out), skips_damage=True))
    assert [row["offset"] for row in rows_of(out, skipped)] == [0, 1, 2, 4]
    assert [(each.start, each.end) for each in skipped.corrupt] == [(3, 4)]


def test_a_removed_segment_is_told(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(300), step=10)
    made = task(stored, out)
    stored.log.remove_settled(200)
    result = write_files(made)
    assert result.is_removed
    assert not list(out.rglob("*.parquet"))


def test_the_log_of_a_queue_that_was_deleted_is_removed_too(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(10))
    made = task(stored, out)
    shutil.rmtree(stored.location.directory)
    assert write_files(made).is_removed


def test_an_output_that_cannot_be_written_is_an_error(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(3))
    out.write_text("a file")
    with pytest.raises(OSError, match="out"):
        write_files(task(stored, out))
