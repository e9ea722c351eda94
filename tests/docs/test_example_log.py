"""The example in docs/log-format.md is what the code writes, byte for byte, and can be read."""

import re
import struct
import uuid
from pathlib import Path

import pytest
from crc32c import crc32c

from appendlog import LogIdentity, LogReader, encode_chunk, encode_message
from appendlog.layout.chunk import decode_chunk_header
from appendlog.layout.end_sums import encode_sums
from appendlog.layout.format import END_SLOT_POSITIONS, INDEX_ENTRY
from appendlog.layout.message import HAS_EXPIRATION, HAS_PRIORITY, PERSISTENT
from appendlog.layout.segment_header import SegmentHeader, encode_segment_header
from appendlog.layout.summary import SegmentSummary, encode_footer
from appendlog.segments.durable_end import DurableEnd, encode_slot
from appendlog.segments.index import index_header

PAGE = Path(__file__).resolve().parents[2] / "docs" / "log-format.md"
INCARNATION = uuid.UUID("8f14e45f-ceea-467f-a4d6-0b1c2d3e4f50")
IDENTITY = LogIdentity("/", "orders", INCARNATION)
CREATED_NS = 1_700_000_000_000_000_000
APPENDED_NS = 1_700_000_001_000_000_000
MESSAGES = [
    encode_message(
        PERSISTENT | HAS_EXPIRATION | HAS_PRIORITY, b"", b"orders", b"\x09\x00\x05\x0260", b"hello"
    ),
    encode_message(0, b"", b"orders", b"\x00\x00", b"you"),
]


def example_parts() -> dict[str, bytes]:
    """Return the parts of the example, each by its title on the page."""
    header = encode_segment_header(SegmentHeader(IDENTITY, 7, CREATED_NS))
    chunk = encode_chunk(MESSAGES, 7, None, APPENDED_NS, [0, 3], IDENTITY.salt)
    summary = SegmentSummary(first_offset=7, end_offset=7, last_timestamp_ns=0)
    summary.add(decode_chunk_header(chunk))
    end = DurableEnd(1, 9, 7, len(header) + len(chunk))
    return {
        "segment header": header,
        "chunk": chunk,
        "footer": encode_footer(summary, IDENTITY.salt),
        "index": index_header(IDENTITY.salt, 7) + INDEX_ENTRY.pack(0, len(header), 0),
        "end, from position 512": encode_slot(end, INCARNATION) + encode_sums(summary, 1),
    }


def dumped(data: bytes) -> str:
    """Return 16 bytes a line: position, hexadecimal, text."""
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        text = "".join(chr(octet) if 32 <= octet < 127 else "." for octet in row)
        lines.append(f"{at:4} | {row.hex(' ', 4):35} | {text}")
    return "\n".join(lines) + "\n"


def shown_parts() -> dict[str, str]:
    """Return the dumps on the page by their titles."""
    found = re.findall(
        r"^\*([^*\n]+)\*[^\n]*\n\n```text\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return dict(found)


def shown_bytes(title: str) -> bytes:
    return b"".join(bytes.fromhex(line.split("|")[1]) for line in shown_parts()[title].splitlines())


@pytest.mark.parametrize("title", example_parts())
def test_the_page_shows_what_the_code_writes(title: str) -> None:
    assert shown_parts()[title] == dumped(example_parts()[title])


def test_a_reader_finds_the_messages_in_the_files_of_the_page(tmp_path: Path) -> None:
    segment = b"".join(map(shown_bytes, ("segment header", "chunk", "footer")))
    (tmp_path / "00000000000000000007.log").write_bytes(segment)
    (tmp_path / "00000000000000000007.index").write_bytes(shown_bytes("index"))
    at = END_SLOT_POSITIONS[1]
    (tmp_path / "end").write_bytes(bytes(at) + shown_bytes("end, from position 512"))
    with LogReader(tmp_path) as reader:
        assert (reader.log_start_offset, reader.log_end_offset) == (7, 9)
        (result,) = reader.read()
        assert list(result.messages) == MESSAGES
        assert list(result.timestamps_ns) == [APPENDED_NS, APPENDED_NS + 3]


def test_fields_stand_where_the_drawings_have_them() -> None:
    chunk = shown_bytes("chunk")
    assert chunk[:4] == b"AQLC"
    fields = struct.unpack("<IIBBHIIQIIQqqqqQ", chunk[4:88])
    assert (
        fields
        == (
            crc32c(chunk[8:]),
            len(chunk) - 12,
            1,  # version
            0,  # data
            0,  # flags
            int.from_bytes(INCARNATION.bytes[:4], "little"),
            2,  # records
            7,  # base offset
            1,  # last offset delta
            1,  # transient
            len(b"hello" + b"you"),
            APPENDED_NS,
            APPENDED_NS + 3,
            APPENDED_NS + 60_000_000,
            APPENDED_NS + 60_000_000,
            1 << 5,
        )
    )
    footer = shown_bytes("footer")
    assert struct.unpack("<HHIQQQQQ", footer[88:136]) == (1, 0, 1, 7, 9, 2, 1, 8)
    assert struct.unpack("<I4s", footer[-8:]) == (len(footer), b"AQLF")
    header = shown_bytes("segment header")
    assert struct.unpack("<QqqIHH", header[32:64]) == (7, CREATED_NS, 0, 0, 1, 6)
    assert header[64:] == b"/orders"
    assert header[16:32] == INCARNATION.bytes
    slot = shown_bytes("end, from position 512")
    position = len(header) + len(chunk)
    assert struct.unpack("<QQQII", slot[32:64]) == (9, 7, position, 0, 1)
