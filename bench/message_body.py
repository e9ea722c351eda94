"""What each message carries, so that the consumer can tell which one it is.

    u16 publisher | u16 index within its block | u32 block | i64 stamp | zeros

The stamp is in ns of CLOCK_MONOTONIC, which all processes of a machine share.

Publishers send whole blocks of `block_messages`, so block * block_messages + index numbers a
publisher's messages from 0 without a gap. Two blocks differ in block and stamp only: what makes
them cheap to write, see `publish_block`. It is 16 bytes in all, so that bodies can be that small.
"""

import struct
from typing import Final

FIXED_PART: Final = struct.Struct(">HH")
"""Publisher and index: the same in every block."""

BLOCK_PART: Final = struct.Struct(">Iq")
"""Block and stamp: the same in all messages of a block."""

BLOCK_MESSAGES_MAX: Final = 1 << 16
"""How many an index can tell apart."""

FIELDS: Final = ">HHIq"
FIELDS_BYTES: Final = struct.calcsize(FIELDS)
BODY_BYTES_MIN: Final = FIELDS_BYTES
BODY_BYTES_MAX: Final = 65_536
"""A body is always one frame: brokers take frames of 128 KiB."""
