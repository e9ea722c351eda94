"""Small logs for tests."""

import uuid
from pathlib import Path

from appendlog import Append, FileSystem, Log, LogIdentity, LogOptions, RecoveryReport, encode_chunk
from appendlog.files.descriptors import Descriptors
from appendlog.layout.message import PERSISTENT, encode_message
from appendlog.layout.segment_header import SegmentHeader, encode_segment_header
from appendlog.recovery.log_images import read_images

IDENTITY = LogIdentity("/", "orders", uuid.UUID("8f14e45f-ceea-467f-a4d6-0b1c2d3e4f50"))
SALT = IDENTITY.salt
OPENED: list[Descriptors] = []


def message(number: int, body_bytes: int = 20, flags: int = PERSISTENT) -> bytes:
    """Return a message that tells its number."""
    body = b"%08d" % number
    return encode_message(flags, b"ex", b"key", b"\x10\x00\x02", body.ljust(body_bytes, b"."))


def messages(start: int, end: int) -> list[bytes]:
    """Return the messages of a range."""
    return [message(number) for number in range(start, end)]


def chunk(start: int, end: int, timestamp_ns: int = 1_000, salt: int = SALT) -> bytes:
    """Return a chunk with the messages of a range."""
    return encode_chunk(messages(start, end), start, None, timestamp_ns + start, None, salt)


def open_log(
    directory: Path,
    filesystem: FileSystem | None = None,
    segment_bytes: int = 1 << 20,
    settled_floor: int = 0,
) -> tuple[Log, RecoveryReport]:
    """Open a log as the server does, with an image if it has one; its descriptors are its own."""
    options = LogOptions(
        segment_bytes=segment_bytes, index_interval_bytes=256, descriptors=Descriptors(4)
    )
    OPENED.append(options.descriptors)
    (image,) = read_images(filesystem or FileSystem(), [directory])
    return Log.open(directory, IDENTITY, options, filesystem, settled_floor, image=image)


def append(log: Log, start: int, end: int, sync: bool = True, step: int = 3) -> None:
    """Append a range, one chunk of `step` messages at a time."""
    for first in range(start, end, step):
        stop = min(first + step, end)
        log.append(Append([chunk(first, stop)], stop, sync=sync))


def append_in_parts(log: Log, request: Append) -> bool:
    """Append as a flusher does: prepare, write and complete where that is possible.

    Returns:
        Whether it was. Otherwise `Log.append` has made the append.
    """
    write = log.prepare(request)
    if write is not None:
        write.write()
        if not write.is_refused:
            log.complete(write)
            return True
        log.abandon(write)
    log.append(request)
    return False


def read_all(log: Log, start: int = 0, max_bytes: int = 1 << 20) -> dict[int, bytes]:
    """Return what a sequential reader gets."""
    found: dict[int, bytes] = {}
    offset = start
    while offset < log.log_end_offset:
        result = log.read(offset, max_bytes, 100)
        assert result.next_offset > offset
        assert all(a < b for a, b in zip(result.offsets, result.offsets[1:], strict=False))
        found.update(zip(result.offsets, result.messages, strict=True))
        offset = result.next_offset
    return found


def expected(start: int, end: int) -> dict[int, bytes]:
    """Return what `read_all` finds when nothing is lost."""
    return {number: message(number) for number in range(start, end)}


CHUNK_BYTES = len(chunk(0, 3))
HEADER_BYTES = len(encode_segment_header(SegmentHeader(IDENTITY, 0, 0)))


def a_log(directory: Path, end: int, segment_bytes: int = 1 << 20) -> list[Path]:
    """Write a log of three-message chunks, close it, return its segments."""
    log, _ = open_log(directory, segment_bytes=segment_bytes)
    append(log, 0, end)
    log.close()
    return sorted(directory.glob("*.log"))


def flip(path: Path, position: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def cut(path: Path, size: int) -> None:
    """Shorten a file."""
    path.write_bytes(path.read_bytes()[:size])
