"""The records of one chunk, and whether its header says the truth about them."""

from dataclasses import dataclass, field

from appendlog.layout.chunk import ChunkHeader
from appendlog.layout.format import OFFSET_MAX
from appendlog.layout.message import PERSISTENT, decode_message
from appendlog.layout.records import WALK_END
from appendlog.segments.chunk_walk import walk


@dataclass(slots=True)
class ChunkRecords:
    """The records of one chunk, as parallel lists."""

    offsets: list[int] = field(default_factory=list)
    timestamps_ns: list[int] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)


def chunk_records(data: bytes, header: ChunkHeader, salt: int) -> ChunkRecords | None:
    """Return the records of a chunk whose CRC is right; None when they do not add up."""
    found = walk(
        data,
        0,
        len(data),
        salt,
        header.base_offset,
        OFFSET_MAX,
        # One more than there should be, so that too many are seen.
        header.record_count + 1,
        1 << 40,
    )
    if found.status != WALK_END:
        return None
    records = ChunkRecords()
    for part in found.parts:
        records.offsets += part.offsets
        records.timestamps_ns += part.timestamps_ns
        records.messages += part.messages()
    return records


def contradiction(header: ChunkHeader, records: ChunkRecords) -> str:
    """Return what the header says wrongly of the records; empty when nothing."""
    try:
        views = [decode_message(message) for message in records.messages]
    except ValueError as error:
        return f"a message does not add up: {error}"
    last = records.offsets[-1] + 1 if records.offsets else header.base_offset
    facts = {
        "record_count": (header.record_count, len(records.offsets)),
        "end offset": (header.end_offset, last),
        "transient_count": (
            header.transient_count,
            sum(not view.flags & PERSISTENT for view in views),
        ),
        "body_bytes": (header.body_bytes, sum(len(view.body) for view in views)),
    }
    wrong = [
        f"{name} is {said}, found {found}" for name, (said, found) in facts.items() if said != found
    ]
    return "; ".join(wrong)
