"""A large message is read as one object, from whatever segment; damage is found as elsewhere."""

from mmap import mmap
from pathlib import Path

import pytest

from appendlog import Append, Chunk, LargeChunk, Log, ReadResult, encode_chunk
from appendlog.layout.format import CHUNK_HEADER_BYTES, TRANSACTION_ID_BYTES
from appendlog.segments.large_record import FRONT_BYTES_MAX, find_large_record
from appendlog.segments.segment_reader import WINDOW_BYTES_MIN
from tests.appendlog.builders import SALT, chunk, flip, message, open_log

BODY_BYTES = 3 * WINDOW_BYTES_MIN
LARGE = message(3, BODY_BYTES)
NAMED = bytes(range(TRANSACTION_ID_BYTES))


def a_log(directory: Path, transaction_id: bytes = b"") -> Log:
    """Return a log with a large message at offset 3, between small ones."""
    log, _ = open_log(directory, segment_bytes=BODY_BYTES // 2)
    large = LargeChunk(LARGE, 3, 1_500, SALT, transaction_id)
    chunks: list[Chunk] = [chunk(0, 3), large, chunk(4, 6, timestamp_ns=2_000)]
    log.append(Append(chunks, 6, sync=True))
    return log


def windows(log: Log) -> list[ReadResult]:
    """Return what a sequential reader gets."""
    found = []
    offset = 0
    while offset < log.log_end_offset:
        found.append(log.read_window(offset, 100, WINDOW_BYTES_MIN))
        offset = found[-1].next_offset
    return found


@pytest.mark.parametrize("transaction_id", [b"", NAMED], ids=["plain", "transaction"])
@pytest.mark.parametrize("is_sealed", [False, True], ids=["active", "sealed"])
def test_a_large_message_has_a_buffer_of_its_own(
    tmp_path: Path, transaction_id: bytes, is_sealed: bool
) -> None:
    log = a_log(tmp_path / "log", transaction_id)
    if is_sealed:
        log.roll()
    parts = [part for result in windows(log) for part in result.parts]

    (large,) = [part for part in parts if 3 in part.offsets]
    assert large.sole_message == LARGE
    assert large.sole_message is large.buffer
    assert list(large.timestamps_ns) == [1_500]
    assert [offset for part in parts for offset in part.offsets] == list(range(6))
    assert [found for part in parts for found in part.messages()] == [
        LARGE if number == 3 else message(number) for number in range(6)
    ]
    assert all(part.sole_message is None for part in parts if part is not large)
    if is_sealed:
        assert any(isinstance(part.buffer, mmap) for part in parts)
    log.close()


def test_counts_and_bounds_are_those_of_a_walk(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log")

    result = log.read_window(3, 100, WINDOW_BYTES_MIN)

    assert (result.record_count, result.message_bytes) == (1, len(LARGE))
    assert result.next_offset == 4
    assert result.read_bytes >= len(LARGE)
    log.close()


@pytest.mark.parametrize("is_sealed", [False, True], ids=["active", "sealed"])
def test_large_messages_that_follow_each_other_are_read_together_up_to_a_bound(
    tmp_path: Path, is_sealed: bool
) -> None:
    log, _ = open_log(tmp_path / "log", segment_bytes=1 << 24)
    large = [message(number, BODY_BYTES) for number in range(1, 5)]
    chunks: list[Chunk] = [chunk(0, 1)]
    chunks += [LargeChunk(each, 1 + at, 1_500, SALT) for at, each in enumerate(large)]
    log.append(Append([*chunks, chunk(5, 9, timestamp_ns=2_000)], 9, sync=True))
    if is_sealed:
        log.roll()
    for large_bytes, offsets in (
        (0, [1]),
        (1, [1]),
        (len(large[0]), [1]),
        (len(large[0]) + 1, [1, 2]),
        (3 * len(large[0]), [1, 2, 3]),
        (1 << 30, [1, 2, 3, 4, 5, 6, 7, 8]),
    ):
        result = log.read_window(1, 100, WINDOW_BYTES_MIN, large_bytes)
        assert [offset for part in result.parts for offset in part.offsets] == offsets
        assert result.next_offset == offsets[-1] + 1
        messages = [part.sole_message for part in result.parts]
        assert messages[: len(large)] == large[: len(messages)]
    log.close()


@pytest.mark.parametrize("is_sealed", [False, True], ids=["active", "sealed"])
@pytest.mark.parametrize("at", [20, CHUNK_HEADER_BYTES + 1, CHUNK_HEADER_BYTES + 50, BODY_BYTES])
def test_damage_in_a_large_record_is_found_and_skipped(
    tmp_path: Path, at: int, is_sealed: bool
) -> None:
    log = a_log(tmp_path / "log")
    if is_sealed:
        log.roll()
    (segment,) = [each for each in log.segments if each.base_offset == 3]
    flip(segment.path, segment.header_bytes + at)

    results = windows(log)

    found = [offset for result in results for offset in result.offsets]
    assert found == [0, 1, 2, 4, 5]
    assert [lost for result in results for lost in result.lost] == [(3, 4)]
    assert len(log.damaged) == 1
    log.close()


@pytest.mark.parametrize(
    "octets",
    [
        chunk(0, 2),
        encode_chunk([message(0, 200)], 0, None, 1, None, SALT + 1),
        encode_chunk([message(0, 200)], 0, None, 1, None, SALT)[:100],
        bytes(500),
    ],
    ids=["two records", "of another log", "short", "no chunk"],
)
def test_other_chunks_are_left_to_the_walk(octets: bytes) -> None:
    assert find_large_record(octets[:FRONT_BYTES_MAX], SALT) is None
    whole = encode_chunk([message(0, 200)], 0, None, 1, None, SALT)
    assert find_large_record(whole[:FRONT_BYTES_MAX], SALT) is not None
