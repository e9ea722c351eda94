"""A chunk in parts is written as the same octets, and its message is not copied."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog import Append, Compression, LargeChunk, Log, LogOptions, encode_chunk
from appendlog.files.filesystem import FileSystem
from appendlog.layout.chunk import decode_chunk_header
from appendlog.layout.large_chunk import joined_chunk
from appendlog.layout.message import HAS_EXPIRATION, HAS_PRIORITY, encode_message
from tests.appendlog.builders import IDENTITY, SALT, chunk, message, open_log, read_all

PROPERTIES = (
    (0, b"\0\0"),
    (1, b"\x10\0\x02"),
    (HAS_PRIORITY, b"\x08\0\x07"),
    (HAS_EXPIRATION, b"\x01\0\x0560000"),
)


@given(
    flags_and_properties=st.sampled_from(PROPERTIES),
    route=st.tuples(st.binary(max_size=255), st.binary(max_size=255)),
    body=st.binary(max_size=2_000),
    offset=st.integers(0, 1 << 61),
    timestamp_ns=st.integers(0, 1 << 60),
    salt=st.integers(0, 0xFFFFFFFF),
    transaction_id=st.sampled_from((b"", bytes(range(16)))),
)
def test_the_octets_are_those_of_a_chunk_in_one_piece(
    flags_and_properties: tuple[int, bytes],
    route: tuple[bytes, bytes],
    body: bytes,
    offset: int,
    timestamp_ns: int,
    salt: int,
    transaction_id: bytes,
) -> None:
    flags, properties = flags_and_properties
    stored = encode_message(flags, *route, properties, body)
    large = LargeChunk(stored, offset, timestamp_ns, salt, transaction_id)

    whole = encode_chunk([stored], offset, None, timestamp_ns, None, salt, transaction_id)

    assert joined_chunk(large) == whole
    assert len(large) == len(whole)
    assert decode_chunk_header(large.front) == decode_chunk_header(whole)._replace(crc=0)


def test_the_body_is_a_view_of_the_message() -> None:
    stored = message(1, 5_000)

    _, body = LargeChunk(stored, 1, 1, SALT).parts()

    assert body.obj is stored


@pytest.mark.parametrize("octets", [b"", bytes(6), message(1)[:5], b"\0\xff" + bytes(20)])
def test_a_message_whose_lengths_do_not_add_up_is_refused(octets: bytes) -> None:
    with pytest.raises(ValueError, match="message"):
        LargeChunk(octets, 0, 1, SALT)


def test_a_log_takes_large_chunks_between_others_and_survives_a_restart(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log", segment_bytes=4_096)
    large = [message(number, 3_000) for number in (3, 4)]

    chunks = [LargeChunk(each, 3 + n, 1_500, SALT) for n, each in enumerate(large)]
    log.append(Append([chunk(0, 3), *chunks, chunk(5, 8, timestamp_ns=2_000)], 8, sync=True))
    found = read_all(log)
    log.close()
    log, report = open_log(tmp_path / "log", segment_bytes=4_096)

    assert found == read_all(log)
    assert [found[3], found[4]] == large
    assert sorted(found) == list(range(8))
    assert not report.lost
    assert len(log.summaries()) > 1
    log.close()


class ShortWrites(FileSystem):
    """Writes at most 700 octets at a time."""

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write the first octets of the first buffer that is not empty."""
        first = next(buffer for buffer in buffers if len(buffer))
        return super().pwritev(descriptor, [memoryview(first)[:700]], position, sync)


def test_a_large_chunk_is_complete_after_short_writes(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log", ShortWrites())
    stored = message(0, 10_000)

    log.append(Append([LargeChunk(stored, 0, 1, SALT)], 1, sync=True))

    assert read_all(log) == {0: stored}
    assert log.damaged_chunks == 0
    log.close()


def test_a_compressing_log_compresses_a_large_chunk(tmp_path: Path) -> None:
    options = LogOptions(compression=Compression.ZSTD)
    log, _ = Log.open(tmp_path / "log", IDENTITY, options)
    stored = message(0, 100_000)

    log.append(Append([LargeChunk(stored, 0, 1, SALT)], 1, sync=True))

    assert read_all(log) == {0: stored}
    assert sum(each.stat().st_size for each in log.directory.iterdir()) < 20_000
    log.close()
