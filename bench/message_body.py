"""What each message carries, so that the consumer can tell which one it is.

    u32 publisher | u32 index within its block | u64 block | i64 stamp | zeros

The stamp is in ns of CLOCK_MONOTONIC, which all processes of a machine share.

Publishers send whole blocks of `block_messages`, so block * block_messages + index numbers a
publisher's messages from 0 without a gap. Within a block, only the second half of this differs from
the last one: what makes it cheap to write, see `publish_block`.
"""

import struct
from typing import Final

FIXED_PART: Final = struct.Struct(">II")
"""Publisher and index: the same in every block."""

BLOCK_PART: Final = struct.Struct(">Qq")
"""Block and stamp: the same in all messages of a block."""

FIELDS: Final = ">IIQq"
FIELDS_BYTES: Final = struct.calcsize(FIELDS)
BODY_BYTES_MIN: Final = FIELDS_BYTES
BODY_BYTES_MAX: Final = 65_536
"""A body is always one frame: brokers take frames of 128 KiB."""
