"""Fields in each message's body by which the consumer identifies the message.

    u16 publisher | u16 index within its block | u32 block | i64 stamp | zeros

The stamp is in ns of CLOCK_MONOTONIC, which all processes of a machine share.

Publishers send whole blocks of `block_messages`. Thus block * block_messages + index numbers a
publisher's messages from 0 without a gap. Two blocks differ only in block and stamp, which makes
them cheap to write (see `publish_block`). The fields have 16 bytes, the smallest body.
"""

import struct
from typing import Final

FIXED_PART: Final = struct.Struct(">HH")
"""Publisher and index, the same in every block."""

BLOCK_PART: Final = struct.Struct(">Iq")
"""Block and stamp, the same in all messages of a block."""

BLOCK_MESSAGES_MAX: Final = 1 << 16
"""Number of values of an index."""

FIELDS: Final = ">HHIq"
FIELDS_BYTES: Final = struct.calcsize(FIELDS)
BODY_BYTES_MIN: Final = FIELDS_BYTES
BODY_BYTES_MAX: Final = 65_536
"""Largest body; it always fits one frame, since brokers accept frames of 128 KiB."""
