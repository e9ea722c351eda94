"""Chunks packed with zstd read the same everywhere, cost less, and lie no better than others."""

import hashlib
from pathlib import Path

import pytest
import zstandard
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from appendlog import Append, Compression, Log, LogOptions, LogReader, RecoveryReport, encode_chunk
from appendlog.files.descriptors import Descriptors
from appendlog.layout.chunk import decode_chunk_header, encode_gap_marker
from appendlog.layout.compression import ChunkCompressor, expand_chunk
from appendlog.layout.format import CHUNK_HEADER_BYTES, COMPRESSED_HEADER_BYTES
from appendlog.layout.message import PERSISTENT
from tests.appendlog.builders import (
    IDENTITY,
    OPENED,
    SALT,
    append,
    chunk,
    cut,
    expected,
    flip,
    message,
    messages,
    read_all,
)

TRANSACTION = bytes(range(16))


def packed_log(directory: Path, segment_bytes: int = 1 << 20) -> tuple[Log, RecoveryReport]:
    """Open a log that packs every chunk which gets smaller by it."""
    options = LogOptions(
        segment_bytes=segment_bytes,
        index_interval_bytes=256,
        descriptors=Descriptors(4),
        compression=Compression.ZSTD,
        compression_bytes_min=0,
    )
    OPENED.append(options.descriptors)
    return Log.open(directory, IDENTITY, options)


def a_packed_log(directory: Path, end: int, step: int = 50, segment_bytes: int = 1 << 20) -> Path:
    """Write a log of packed chunks, close it, return its first segment."""
    log, _ = packed_log(directory, segment_bytes)
    append(log, 0, end, step=step)
    log.close()
    return min(directory.glob("*.log"))


def test_messages_come_back_as_they_were_and_take_less_room(tmp_path: Path) -> None:
    a_packed_log(tmp_path / "packed", 500)
    plain, _ = Log.open(tmp_path / "plain", IDENTITY, LogOptions(descriptors=Descriptors(4)))
    append(plain, 0, 500, step=50)
    log, report = packed_log(tmp_path / "packed")
    assert report.is_clean
    assert read_all(log) == expected(0, 500)
    assert read_all(log, max_bytes=1) == expected(0, 500)
    assert read_all(log, start=333) == expected(333, 500)
    assert log.size_bytes < plain.size_bytes / 2
    assert log.summaries()[0].body_bytes == plain.summaries()[0].body_bytes
    log.close()
    plain.close()


def test_another_process_reads_them_whole_or_in_splits(tmp_path: Path) -> None:
    a_packed_log(tmp_path, 3_000, segment_bytes=4_000)
    with LogReader(tmp_path) as reader:
        splits = reader.plan_splits(split_bytes=500)
        assert len(splits) > 3
        found = [
            (offset, octets)
            for split in splits
            for batch in reader.read_split(split, batch_records=7)
            for offset, octets in zip(batch.offsets, batch.messages, strict=True)
        ]
    assert found == list(expected(0, 3_000).items())


def test_transient_records_and_transactions_are_found_in_them(tmp_path: Path) -> None:
    log, _ = packed_log(tmp_path)
    mixed = [message(number, flags=PERSISTENT if number % 3 else 0) for number in range(90)]
    log.append(Append([encode_chunk(mixed, 0, None, 1, None, SALT)], 90, sync=True))
    log.append(
        Append(
            [encode_chunk(messages(90, 150), 90, None, 1, None, SALT, TRANSACTION)], 150, sync=True
        )
    )
    log.close()
    opened, _ = packed_log(tmp_path)
    assert opened.transient_ranges(0) == [(number, number + 1) for number in range(0, 90, 3)]
    assert opened.transaction_counts(0) == {TRANSACTION: 60}
    assert list(read_all(opened)) == list(range(150))
    opened.close()


def test_packed_and_plain_chunks_stand_side_by_side(tmp_path: Path) -> None:
    a_packed_log(tmp_path, 100)
    plain, _ = Log.open(tmp_path, IDENTITY, LogOptions(descriptors=Descriptors(4)))
    append(plain, 100, 200)
    plain.close()
    log, _ = packed_log(tmp_path)
    append(log, 200, 300, step=50)
    assert read_all(log) == expected(0, 300)
    log.close()


def test_a_torn_tail_costs_the_torn_chunk_wherever_it_was_cut(tmp_path: Path) -> None:
    segment = a_packed_log(tmp_path / "whole", 150)
    octets = segment.read_bytes()
    # The last chunk, byte by byte; the two before it stay.
    last = octets.rindex(b"AQLC")
    for size in range(last, len(octets)):
        directory = tmp_path / str(size)
        directory.mkdir()
        (directory / segment.name).write_bytes(octets[:size])
        log, report = packed_log(directory)
        assert report.damaged_chunks == 0
        assert read_all(log) == expected(0, 100)
        log.close()


def test_a_flipped_bit_costs_one_chunk_and_is_found(tmp_path: Path) -> None:
    segment = a_packed_log(tmp_path, 150)
    octets = segment.read_bytes()
    second = octets.index(b"AQLC", octets.index(b"AQLC") + 1)
    flip(segment, second + CHUNK_HEADER_BYTES + COMPRESSED_HEADER_BYTES + 9)
    log, report = packed_log(tmp_path)
    assert report.lost == [(50, 100)]
    assert read_all(log) == expected(0, 50) | expected(100, 150)
    log.close()


@pytest.mark.parametrize("forgery", ["size", "frame", "cut", "unsized"])
def test_records_that_do_not_expand_are_damage_although_the_crc_is_right(
    tmp_path: Path, forgery: str
) -> None:
    packed = ChunkCompressor(0).compress(chunk(50, 100))
    forged = bytearray(packed)
    at = CHUNK_HEADER_BYTES
    if forgery == "size":
        forged[at : at + 4] = (1 << 29).to_bytes(4, "little")
    elif forgery == "frame":
        forged[at + 4 : at + 8] = b"\0\0\0\0"
    elif forgery == "unsized":
        records = zstandard.decompress(forged[at + COMPRESSED_HEADER_BYTES :])
        frame = zstandard.ZstdCompressor(write_content_size=False).compress(records)
        forged[at + COMPRESSED_HEADER_BYTES :] = frame
        forged[8:12] = (len(forged) - 12).to_bytes(4, "little")
    else:
        forged = forged[: at + 2]
        forged[8:12] = (len(forged) - 12).to_bytes(4, "little")
    sealed = with_crc(bytes(forged))
    assert expand_chunk(sealed) is None
    log, _ = packed_log(tmp_path)
    append(log, 0, 50, step=50)
    log.append(Append([sealed], 100, sync=True))
    append(log, 100, 150, step=50)
    assert read_all(log) == expected(0, 50) | expected(100, 150)
    assert len(log.damaged) == 1
    log.close()


def test_small_chunks_control_chunks_and_what_does_not_shrink_stay_as_they_are() -> None:
    small = chunk(0, 3)
    assert ChunkCompressor(10_000).compress(small) is small
    marker = encode_gap_marker(0, 7, 0, 1, SALT)
    assert ChunkCompressor(0).compress(marker) is marker
    noise = message(1, body_bytes=8) + hashlib.sha512(b"noise").digest()
    lone = encode_chunk([noise], 0, None, 1, None, SALT)
    assert ChunkCompressor(0).compress(lone) is lone
    packed = ChunkCompressor(0).compress(chunk(0, 100))
    assert decode_chunk_header(packed).is_compressed
    assert ChunkCompressor(0).compress(packed) is packed


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=40),
    st.sampled_from([b"", TRANSACTION]),
)
def test_expanding_undoes_packing_for_any_bodies(bodies: list[bytes], transaction: bytes) -> None:
    octets = [b"\x01\x02ex\x03key\x03\0\0\0\x10\0\x02" + body for body in bodies]
    plain = encode_chunk(octets, 5, None, 77, None, SALT, transaction)
    assert expand_chunk(ChunkCompressor(0).compress(plain)) == plain


def test_a_segment_cut_inside_a_sealed_packed_chunk_is_damage(tmp_path: Path) -> None:
    segment = a_packed_log(tmp_path, 2_000, segment_bytes=4_000)
    cut(segment, segment.stat().st_size // 2)
    log, report = packed_log(tmp_path)
    assert report.damaged_chunks
    kept = read_all(log)
    assert kept.items() <= expected(0, 2_000).items()
    assert 1_999 in kept
    log.close()


def with_crc(octets: bytes) -> bytes:
    """Return a chunk whose CRC is right for what is in it."""
    return octets[:4] + crc32c(octets[8:]).to_bytes(4, "little") + octets[8:]
