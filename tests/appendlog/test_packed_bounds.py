"""A packed chunk expands to no more than a chunk ever has, whatever it says of itself."""

import os
import subprocess
import sys
from pathlib import Path
from struct import Struct

import pytest
from crc32c import crc32c

from amqp_server.base.config import BOUNDS
from appendlog import Append, FileSystem, encode_chunk
from appendlog.checking.log_check import check_log
from appendlog.embedded.log_writer import MESSAGE_BYTES_MAX
from appendlog.embedded.options import BATCH_BYTES_MAX
from appendlog.layout.chunk import ChunkHeader, decode_chunk_header
from appendlog.layout.compression import ChunkCompressor, expand_chunk
from appendlog.layout.format import (
    CHUNK_HEADER,
    CHUNK_HEADER_BYTES,
    CHUNK_PREFIX_BYTES,
    COMPRESSED_HEADER,
    FLAG_COMPRESSED,
    PACKED_RECORD_BYTES_MAX,
    PACKED_RECORDS_BYTES_MAX,
    RECORD_BYTES_MIN,
    RECORD_HEADER_BYTES,
    U32_MAX,
)
from appendlog.layout.headers import HEADERS_BYTES_MAX
from appendlog.layout.message import MESSAGE_BYTES_MIN, PERSISTENT
from tests.appendlog.builders import IDENTITY, SALT, append, chunk, expected, message
from tests.appendlog.test_compression import packed_log
from tests.servers import REPOSITORY

FRAME_HEAD = Struct("<IBQ")  # magic, a single segment that names its size in 8 bytes, the size
BLOCK_BYTES = 128 << 10
NAMES_BYTES = 2 * 256
MIB = 1 << 20


def zeros(content_bytes: int, said_bytes: int | None = None) -> bytes:
    """Return a zstd frame of zeros, of four bytes for each 128 KiB (RFC 8878, 3.1.1.2)."""
    said = content_bytes if said_bytes is None else said_bytes
    sizes = [BLOCK_BYTES] * (content_bytes // BLOCK_BYTES) + [content_bytes % BLOCK_BYTES]
    blocks = [
        ((at == len(sizes) - 1) | 1 << 1 | size << 3).to_bytes(3, "little") + b"\0"
        for at, size in enumerate(sizes)
    ]
    return FRAME_HEAD.pack(0xFD2FB528, 0xE0, said) + b"".join(blocks)


def packed(frame: bytes, said_bytes: int, header: ChunkHeader) -> bytes:
    """Return a chunk that says it expands to so many bytes of records; its CRC is right."""
    payload = COMPRESSED_HEADER.pack(said_bytes) + frame
    length = CHUNK_HEADER_BYTES - CHUNK_PREFIX_BYTES + len(payload)
    fields = header._replace(length=length, flags=header.flags | FLAG_COMPRESSED)
    octets = CHUNK_HEADER.pack(*fields) + payload
    return octets[:4] + crc32c(octets[8:]).to_bytes(4, "little") + octets[8:]


def header(count: int, base_offset: int = 50) -> ChunkHeader:
    """Return the header of a plain chunk of so many records."""
    plain = decode_chunk_header(chunk(base_offset, base_offset + 1))
    return plain._replace(record_count=count, last_offset_delta=max(count - 1, 0))


BOMBS = {
    "one record": packed(zeros(1023 * MIB), 1023 * MIB, header(1)),
    "one byte too many": packed(
        zeros(PACKED_RECORD_BYTES_MAX + 1), PACKED_RECORD_BYTES_MAX + 1, header(1)
    ),
    "no record": packed(zeros(1023 * MIB), 1023 * MIB, header(0)),
    "several records": packed(zeros(400 * MIB), 400 * MIB, header(2)),
    "a frame that says more": packed(zeros(2048 * MIB), 100, header(1)),
    "a frame that says nothing but lies": packed(zeros(1023 * MIB, 100), 100, header(1)),
    "a chunk that lies": packed(zeros(100), 512 * MIB, header(1)),
    "a frame that ends too soon": packed(zeros(100, 1023 * MIB), 1023 * MIB, header(1)),
    "records that cannot be": packed(zeros(100), 100, header(U32_MAX)),
}

EXPAND = """
import resource, sys
from pathlib import Path
from appendlog.layout.compression import expand_chunk
chunks = [path.read_bytes() for path in sorted(Path(sys.argv[1]).iterdir())]
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20),) * 2)
print([expand_chunk(chunk) for chunk in chunks])
"""

CHECK = """
import resource, sys
from collections import deque
from pathlib import Path
from appendlog import FileSystem
from appendlog.checking.log_check import check_log
from tests.appendlog.builders import IDENTITY
directory = Path(sys.argv[1])
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (int(sys.argv[2]) << 20),) * 2)
check = check_log(directory, IDENTITY, FileSystem(), is_live=False)
print(check.record_count, [problem.kind for problem in check.problems.kept])
"""


def child(program: str, *arguments: str) -> str:
    """Run a program that limits its own memory; return what it writes."""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "MALLOC_ARENA_MAX": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_what_claims_too_much_is_damage_and_nothing_is_allocated_for_it(tmp_path: Path) -> None:
    for name, octets in BOMBS.items():
        assert len(octets) < 70_000
        (tmp_path / name).write_bytes(octets)
    assert child(EXPAND, str(tmp_path)) == str([None] * len(BOMBS))


@pytest.mark.parametrize("name", BOMBS)
def test_a_reader_goes_past_it(tmp_path: Path, name: str) -> None:
    log, _ = packed_log(tmp_path)
    append(log, 0, 50, step=50)
    octets = BOMBS[name]
    end = decode_chunk_header(octets).end_offset
    log.append(Append([octets], end, sync=True))
    last = message(end)
    log.append(Append([encode_chunk([last], end, None, 5_000, None, SALT)], end + 1, sync=True))
    read = {
        offset: octets
        for start in (0, 50)
        for result in [log.read(start, 1 << 20, 100)]
        for offset, octets in zip(result.offsets, result.messages, strict=True)
    }
    assert read == expected(0, 50) | {end: last}
    assert len(log.damaged) >= 1
    window = log.read_window(50, 1 << 62)
    assert window.lost == [(50, end)]
    assert window.messages == [last]
    log.close()


@pytest.mark.parametrize("name", BOMBS)
def test_a_check_calls_it_damage(tmp_path: Path, name: str) -> None:
    log, _ = packed_log(tmp_path)
    append(log, 0, 50, step=50)
    octets = BOMBS[name]
    end = decode_chunk_header(octets).end_offset
    log.append(Append([octets], end, sync=True))
    log.close()
    problems = check_log(tmp_path, IDENTITY, FileSystem(), is_live=False).problems.kept
    assert [problem.kind for problem in problems] == ["wrong-chunk"]


def test_a_check_of_a_million_records_in_one_chunk_takes_the_room_of_their_bytes(
    tmp_path: Path,
) -> None:
    count = 1_000_000
    empty = bytes((PERSISTENT, *bytes(6)))
    log, _ = packed_log(tmp_path)
    log.append(Append([encode_chunk([empty] * count, 0, None, 1, None, SALT)], count, sync=True))
    assert log.size_bytes < 2 * count
    log.close()
    # 19 bytes each, twice while they are put behind their header, and 24 for its place.
    assert child(CHECK, str(tmp_path), "80") == f"{count} []"


def test_all_that_is_ever_written_may_be_packed() -> None:
    names = RECORD_HEADER_BYTES + MESSAGE_BYTES_MIN + NAMES_BYTES
    body_bytes_max = int(BOUNDS["max_message_bytes"].most)
    assert body_bytes_max + HEADERS_BYTES_MAX + names <= PACKED_RECORD_BYTES_MAX
    assert MESSAGE_BYTES_MAX + RECORD_HEADER_BYTES <= PACKED_RECORD_BYTES_MAX
    count_max = BATCH_BYTES_MAX // MESSAGE_BYTES_MIN
    longest = count_max * RECORD_BYTES_MIN + MESSAGE_BYTES_MAX + RECORD_HEADER_BYTES
    assert longest <= PACKED_RECORDS_BYTES_MAX
    assert BOUNDS["flush_bytes"].most <= BATCH_BYTES_MAX


def test_a_chunk_that_could_not_be_read_back_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = chunk(0, 100)
    size = len(plain) - CHUNK_HEADER_BYTES
    name = "appendlog.layout.compression.PACKED_RECORDS_BYTES_MAX"
    monkeypatch.setattr(name, size)
    assert expand_chunk(ChunkCompressor(0).compress(plain)) == plain
    monkeypatch.setattr(name, size - 1)
    assert ChunkCompressor(0).compress(plain) is plain


def test_a_record_alone_in_its_chunk_may_be_larger_than_several_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = encode_chunk([message(0, body_bytes=2_000)], 0, None, 1, None, SALT)
    size = len(plain) - CHUNK_HEADER_BYTES
    monkeypatch.setattr("appendlog.layout.compression.PACKED_RECORDS_BYTES_MAX", size - 1)
    name = "appendlog.layout.compression.PACKED_RECORD_BYTES_MAX"
    monkeypatch.setattr(name, size)
    packed_alone = ChunkCompressor(0).compress(plain)
    assert decode_chunk_header(packed_alone).is_compressed
    assert expand_chunk(packed_alone) == plain
    monkeypatch.setattr(name, size - 1)
    assert expand_chunk(packed_alone) is None
    assert ChunkCompressor(0).compress(plain) is plain
