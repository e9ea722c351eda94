import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crc32c import crc32c

from appendlog import encode_chunk
from appendlog.spark.decoding import log_batches
from appendlog.spark.exporting import part_writer
from appendlog.spark.exporting.export_plan import plan_export
from appendlog.spark.exporting.part_writer import PartResult, PartTask, write_part
from tests.spark.builders import StoredQueue, all_kinds_of_messages, plain_messages, store_queue
from tests.spark.plain_reader import expected_rows, file_rows


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path / "data", segment_bytes=4096)
    yield queue
    queue.close()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target"
    path.mkdir()
    return path


def write_all(stored: StoredQueue, target: Path, part_bytes: int = 2000) -> list[PartResult]:
    plan = plan_export(stored.location, [], part_bytes=part_bytes)
    return [write_part(PartTask(stored.location, split, target)) for split in plan.splits]


def test_files_hold_what_a_plain_reader_finds(stored: StoredQueue, target: Path) -> None:
    stored.append(all_kinds_of_messages(), step=7)
    stored.append(plain_messages(200), step=9)
    results = write_all(stored, target)
    assert len(results) > 3
    rows = [row for result in results if result.path for row in file_rows(result.path)]
    assert rows == expected_rows(stored.location)
    assert [result.rows for result in results] == [
        result.end_offset - result.start_offset for result in results
    ]
    assert sum(result.missing + result.undecodable for result in results) == 0


def test_bodies_larger_than_a_batch_are_whole(
    stored: StoredQueue, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_batches, "BATCH_BYTES", 1000)
    monkeypatch.setattr(part_writer, "ROW_GROUP_BYTES", 5000)
    sizes = [0, 10_000, 3, 999, 1000, 1001, 0, 70_000]
    stored.append([plain_messages(1, at, size)[0] for at, size in enumerate(sizes)], step=3)
    results = write_all(stored, target, part_bytes=1 << 20)
    rows = [row for result in results if result.path for row in file_rows(result.path)]
    assert [len(row["value"]) for row in rows] == [max(size, 1) for size in sizes]
    assert rows == expected_rows(stored.location)


def test_a_large_part_has_several_row_groups_and_the_same_ones_each_time(
    stored: StoredQueue, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_batches, "BATCH_RECORDS", 16)
    monkeypatch.setattr(part_writer, "ROW_GROUP_ROWS", 40)
    stored.append(plain_messages(100), step=5)
    first, second = (write_all(stored, target, 1 << 20) for _ in range(2))
    assert [_read(result) for result in first] == [_read(result) for result in second]
    assert first[0].path is not None
    assert pq.ParquetFile(first[0].path).num_row_groups > 0


def _read(result: PartResult) -> bytes:
    assert result.path is not None
    return result.path.read_bytes()


def test_offsets_that_were_never_written_are_counted_as_gaps(
    stored: StoredQueue, target: Path
) -> None:
    stored.append(plain_messages(10))
    stored.skip(5)
    stored.append(plain_messages(10))
    stored.skip(7)
    (result,) = write_all(stored, target, 1 << 20)
    assert (result.start_offset, result.end_offset, result.rows) == (0, 32, 20)
    assert (result.missing, result.gaps) == (12, [(10, 15), (25, 32)])
    assert result.path is not None
    metadata = pq.read_metadata(result.path).metadata
    assert metadata[b"amqplog.gaps"] == b"[[10, 15], [25, 32]]"
    assert metadata[b"amqplog.rows"] == b"20"


def test_a_part_with_nothing_but_gaps_is_an_empty_file(stored: StoredQueue, target: Path) -> None:
    stored.append(plain_messages(1))
    stored.skip(9)
    plan = plan_export(stored.location, [(0, 5)])
    result = write_part(PartTask(stored.location, plan.splits[0], target))
    assert (result.rows, result.missing) == (0, 5)
    assert result.path is not None
    assert file_rows(result.path) == []


def test_damage_names_segment_offset_and_position(stored: StoredQueue, target: Path) -> None:
    stored.append(plain_messages(40), step=10)
    (path,) = stored.segments()
    data = bytearray(path.read_bytes())
    at = data.index(b"15....")
    data[at] ^= 1
    path.write_bytes(data)
    (result,) = write_all(stored, target, 1 << 20)
    assert result.path is None
    assert result.damage is not None
    assert path.name in result.damage
    assert "offset 10" in result.damage
    assert "position " in result.damage


def test_a_record_that_is_no_message_is_damage(stored: StoredQueue, target: Path) -> None:
    stored.append(plain_messages(3))
    chunk = bytearray(encode_chunk(plain_messages(2), 3, None, 1, None, stored.log.identity.salt))
    # The exchange's length: the message now ends inside its route, and the CRC is right.
    chunk[chunk.index(b"\x04shop")] = 255
    chunk[4:8] = crc32c(bytes(chunk[8:])).to_bytes(4, "little")
    stored.log.append([bytes(chunk)], 5, sync=True)
    (result,) = write_all(stored, target, 1 << 20)
    assert result.path is None
    assert result.damage is not None
    assert "offset 3" in result.damage
    assert stored.segments()[0].name in result.damage


def test_a_removed_segment_is_told(stored: StoredQueue, target: Path) -> None:
    stored.append(plain_messages(300), step=10)
    plan = plan_export(stored.location, [])
    stored.log.remove_settled(200)
    result = write_part(PartTask(stored.location, plan.splits[0], target))
    assert (result.is_removed, result.path) == (True, None)


def test_a_missing_target_is_an_error_and_no_removed_segment(
    stored: StoredQueue, target: Path
) -> None:
    stored.append(plain_messages(3))
    shutil.rmtree(target)
    with pytest.raises(FileNotFoundError):
        write_all(stored, target)
