import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from appendlog import SplitReader
from appendlog.layout.chunk import decode_chunk_header
from appendlog.layout.format import CHUNK_CRC_START, CHUNK_MAGIC_BYTES
from appendlog.reader import LogReader
from appendlog.spark.decoding.log_batches import LogBatch, log_batches
from appendlog.spark.decoding.malformed import MalformedMessageError
from appendlog.spark.schema.columns import ROWS
from appendlog.split_reader import skip_damage
from tests.spark.builders import StoredQueue, plain_message, plain_messages, store_queue
from tests.spark.damage import flip_texts


@pytest.fixture
def queue(tmp_path: Path) -> StoredQueue:
    """Give a queue of 300 records, 50 to a chunk; 120 and 170 are no messages."""
    queue = store_queue(tmp_path)
    queue.append(plain_messages(300))
    queue.close()
    (segment,) = queue.segments()
    data = bytearray(segment.read_bytes())
    for number in (120, 170):
        # An exchange that is longer than the message; the checksum is made right again.
        at = data.index(plain_message(number))
        data[at + 1] = 255
        chunk_at = data.rindex(CHUNK_MAGIC_BYTES, 0, at)
        chunk = data[chunk_at : chunk_at + decode_chunk_header(bytes(data), chunk_at).chunk_bytes]
        struct.pack_into("<I", data, chunk_at + 4, crc32c(bytes(chunk[CHUNK_CRC_START:])))
    segment.write_bytes(data)
    return queue


def read(queue: StoredQueue, *, skips: bool, split_bytes: int = 1 << 30) -> list[LogBatch]:
    directory = queue.location.directory
    with LogReader(directory) as planner:
        splits = planner.plan_splits(split_bytes=split_bytes)
    reader = SplitReader(directory, on_damage=skip_damage)
    batches = [
        batch
        for split in splits
        for batch in log_batches(reader, queue.location, split, ROWS, skip_malformed=skips)
    ]
    reader.close()
    return batches


def offsets(batches: list[LogBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.rows.column("offset").to_pylist()]


def test_a_record_that_is_no_message_is_an_error(queue: StoredQueue) -> None:
    with pytest.raises(MalformedMessageError, match="offset 120 holds no message"):
        read(queue, skips=False)


@pytest.mark.parametrize("split_bytes", [1, 3_000, 1 << 30])
def test_records_that_are_no_messages_are_told_like_damage(
    queue: StoredQueue, split_bytes: int
) -> None:
    batches = read(queue, skips=True, split_bytes=split_bytes)
    assert offsets(batches) == [at for at in range(300) if at not in (120, 170)]
    assert [each for batch in batches for each in batch.lost] == [(120, 121), (170, 171)]
    assert [each for batch in batches for each in batch.missing] == [(120, 121), (170, 171)]
    damaged = [each for batch in batches for each in batch.damaged]
    assert [(each.start_offset, each.end_offset) for each in damaged] == [(120, 121), (170, 171)]
    reader = SplitReader(queue.location.directory)
    first, second = (reader.damaged_bytes(each, 1 << 20) for each in damaged)
    reader.close()
    assert plain_message(119) in first
    assert plain_message(171) in second
    assert plain_message(171) not in first


def test_damage_and_records_that_are_no_messages_are_told_in_order(queue: StoredQueue) -> None:
    (segment,) = queue.segments()
    flip_texts(segment, plain_message(30), plain_message(290))
    batches = read(queue, skips=True)
    damaged = [each for batch in batches for each in batch.damaged]
    assert [(each.start_offset, each.end_offset) for each in damaged] == [
        (0, 50),
        (120, 121),
        (170, 171),
        (250, 300),
    ]
    assert [(start, end) for batch in batches for start, end in batch.lost] == [
        (each.start_offset, each.end_offset) for each in damaged
    ]
    assert len(offsets(batches)) == 300 - 102
