"""Records of one chunk, and their comparison with its header."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from appendlog.layout.chunk import ChunkHeader
from appendlog.layout.format import OFFSET_MAX
from appendlog.layout.message import PERSISTENT, message_borders
from appendlog.layout.records import WALK_END
from appendlog.segments.chunk_walk import walk
from appendlog.segments.read_result import Records


@dataclass(slots=True)
class ChunkRecords:
    """Records of one chunk, as places: a packed chunk has millions in a few bytes.

    Attributes:
        parts: Records, one part for each buffer that they lie in.
    """

    parts: list[Records]

    @property
    def offsets(self) -> Iterator[int]:
        """Offset of each record."""
        return chain.from_iterable(part.offsets for part in self.parts)

    @property
    def messages(self) -> Iterator[memoryview]:
        """Message of each record, not copied."""
        for part in self.parts:
            with memoryview(part.buffer) as octets:
                for position, length in zip(part.positions, part.lengths, strict=True):
                    yield octets[position : position + length]


def chunk_records(data: bytes, header: ChunkHeader, salt: int) -> ChunkRecords | None:
    """Return the records of a chunk with a valid CRC; None if they do not add up."""
    found = walk(
        data,
        0,
        len(data),
        salt,
        header.base_offset,
        OFFSET_MAX,
        # Room for one record too many, so that a wrong count is noticed.
        header.record_count + 1,
        1 << 40,
    )
    if found.status != WALK_END:
        return None
    return ChunkRecords(found.parts)


def contradiction(header: ChunkHeader, records: ChunkRecords) -> str:
    """Return what the header says wrongly about the records; empty if nothing."""
    count = transient_count = body_bytes = 0
    try:
        for message in records.messages:
            _, _, body_at = message_borders(message)
            count += 1
            transient_count += not message[0] & PERSISTENT
            body_bytes += len(message) - body_at
    except ValueError as error:
        return f"a message does not add up: {error}"
    end = records.parts[-1].offsets[-1] + 1 if records.parts else header.base_offset
    counted = {
        "record_count": (header.record_count, count),
        "end offset": (header.end_offset, end),
        "transient_count": (header.transient_count, transient_count),
        "body_bytes": (header.body_bytes, body_bytes),
    }
    wrong = [
        f"{name} is {said}, found {found}"
        for name, (said, found) in counted.items()
        if said != found
    ]
    return "; ".join(wrong)
