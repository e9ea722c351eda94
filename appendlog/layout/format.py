"""Sizes, magics and field layouts of everything on disk; docs/log-format.md describes them.

No I/O. The assertions at the end tie this file to the document: a field that is added in only one
place fails at import.
"""

from struct import Struct
from typing import Final

FORMAT_VERSION: Final = 1
"""Version that is written. Version 0 can still be read; it only lacks compressed chunks."""

SEGMENT_MAGIC: Final = 0x534C5141  # "AQLS"
CHUNK_MAGIC: Final = 0x434C5141  # "AQLC"
FOOTER_MAGIC: Final = 0x464C5141  # "AQLF"
INDEX_MAGIC: Final = 0x494C5141  # "AQLI"
END_MAGIC: Final = 0x454C5141  # "AQLE"
END_SUMS_MAGIC: Final = 0x544C5141  # "AQLT"
CHUNK_MAGIC_BYTES: Final = b"AQLC"

# magic, crc32c, length, version, zero, flags, incarnation, base_offset, created_ns,
# previous_timestamp_ns, generation, vhost_bytes, queue_bytes
SEGMENT_HEADER: Final = Struct("<IIIBBH16sQqqIHH")
SEGMENT_HEADER_BYTES: Final = 64

# magic, crc32c, length, version, kind, flags, salt, record_count, base_offset,
# last_offset_delta, transient_count, body_bytes, first_timestamp_ns,
# last_timestamp_ns, min_expiry_ns, max_expiry_ns, priority_bitmap
CHUNK_HEADER: Final = Struct("<IIIBBHIIQIIQqqqqQ")
CHUNK_HEADER_BYTES: Final = 88
CHUNK_PLACE: Final = Struct("<I9xB2xI4xQ16xq")  # magic, kind, salt, base_offset, first_timestamp_ns
CRC_FRONT: Final = Struct("<II")  # magic, crc32c
CHUNK_PREFIX: Final = Struct("<III")  # magic, crc32c, length
CHUNK_PREFIX_BYTES: Final = 12  # the bytes before what `length` counts
CHUNK_CRC_START: Final = 8  # the CRC covers everything from here
CHUNK_BYTES_MAX: Final = 1 << 30
"""Maximum size of a chunk with its header; a longer length on disk is damage."""

KIND_DATA: Final = 0
KIND_CONTROL: Final = 1
FLAG_TRANSACTION: Final = 1
FLAG_COMPRESSED: Final = 2
FLAGS_KNOWN: Final = (FLAG_TRANSACTION, FLAG_TRANSACTION | FLAG_COMPRESSED)
"""All combinations of flags that a chunk may have, by its version."""
TRANSACTION_ID_BYTES: Final = 16

COMPRESSED_HEADER: Final = Struct("<I")  # bytes of the records, expanded
COMPRESSED_HEADER_BYTES: Final = 4

RECORD_HEADER: Final = Struct("<III")  # record_bytes, offset_delta, timestamp_delta_ns
RECORD_HEADER_BYTES: Final = 12
RECORD_BYTES_MIN: Final = 19  # the header, and the shortest message
PACKED_RECORD_BYTES_MAX: Final = 530 << 20
"""Maximum size of the record in a compressed chunk that has only one.

That is a body of 512 MiB (the highest limit that a server accepts), 16 MiB of headers, names, and
the record's header.
"""
PACKED_RECORDS_BYTES_MAX: Final = 320 << 20
"""Maximum size of the records in a compressed chunk that has several.

A chunk is closed when its messages have 64 MiB, which is 183 MiB of records if all of them are
empty; the last message may add 128 MiB.
"""

CONTROL_FOOTER: Final = 1
CONTROL_GAP: Final = 2
GAP_SKIPPED: Final = 0
GAP_LOST: Final = 1

# control_type, version, chunk_count, first_offset, end_offset, record_count,
# transient_count, body_bytes, first_timestamp_ns, last_timestamp_ns, min_expiry_ns,
# max_expiry_ns, priority_bitmap, removed_count, removed_flags
FOOTER: Final = Struct("<HHIQQQQQqqqqQII")
FOOTER_BYTES: Final = 96
REMOVED_RANGE: Final = Struct("<QQ")  # start, end
REMOVED_RANGE_BYTES: Final = 16
REMOVED_JOINED: Final = 1
"""Flag of a footer: its removed ranges also contain existing records."""
TIMES_STEP_BACK: Final = 2
"""Flag of a footer: append times step back at the start of this segment, or of an earlier one."""
REMOVED_RANGES_MAX: Final = 4096
"""Maximum number of ranges in a footer: 64 KiB."""
FOOTER_TRAILER: Final = Struct("<II")  # footer_bytes, magic
FOOTER_TRAILER_BYTES: Final = 8

GAP_MARKER: Final = Struct("<HHIQ")  # control_type, version, reason, start
GAP_MARKER_BYTES: Final = 16

INDEX_HEADER: Final = Struct("<IIQ")  # magic, salt, base_offset
INDEX_ENTRY: Final = Struct("<IIq")  # relative_offset, position, max_timestamp_ns
INDEX_ENTRY_BYTES: Final = 16

# magic, crc32c, generation, incarnation, recovery_point, segment_base_offset,
# position, segment_generation, version
END_SLOT: Final = Struct("<IIQ16sQQQII")
END_SLOT_TAIL: Final = Struct("<Q16sQQQII")  # the fields behind the CRC, which covers them
END_SLOT_BYTES: Final = 64
END_SLOT_POSITIONS: Final = (0, 512)
# magic, crc32c, generation, chunk_count, zero, first_offset, end_offset, record_count,
# transient_count, body_bytes, first_timestamp_ns, last_timestamp_ns, min_expiry_ns,
# max_expiry_ns, priority_bitmap
END_SUMS: Final = Struct("<IIQIIQQQQQqqqqQ")
END_SUMS_TAIL: Final = Struct("<QIIQQQQQqqqqQ")  # the fields behind the CRC
END_SUMS_BYTES: Final = 104

OFFSET_MAX: Final = (1 << 62) - 1
"""Highest offset; a higher one on disk is damage."""
U32_MAX: Final = (1 << 32) - 1
U64_MAX: Final = (1 << 64) - 1

assert SEGMENT_HEADER.size == SEGMENT_HEADER_BYTES
assert CHUNK_HEADER.size == CHUNK_HEADER_BYTES
assert CHUNK_PREFIX.size == CHUNK_PREFIX_BYTES
assert COMPRESSED_HEADER.size == COMPRESSED_HEADER_BYTES
assert RECORD_HEADER.size == RECORD_HEADER_BYTES
assert FOOTER.size == FOOTER_BYTES
assert REMOVED_RANGE.size == REMOVED_RANGE_BYTES
assert FOOTER_TRAILER.size == FOOTER_TRAILER_BYTES
assert GAP_MARKER.size == GAP_MARKER_BYTES
assert INDEX_HEADER.size == INDEX_ENTRY.size == INDEX_ENTRY_BYTES
assert END_SLOT.size == END_SLOT_BYTES
assert END_SUMS.size == END_SUMS_BYTES
assert END_SLOT_TAIL.size == END_SLOT_BYTES - CHUNK_CRC_START
assert END_SUMS_TAIL.size == END_SUMS_BYTES - CHUNK_CRC_START
assert CRC_FRONT.size == CHUNK_CRC_START
assert END_SLOT_POSITIONS[1] >= END_SLOT_BYTES + END_SUMS_BYTES
assert Struct("<I").pack(CHUNK_MAGIC) == CHUNK_MAGIC_BYTES
