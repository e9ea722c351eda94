"""The records kernel, compiled where it was built, interpreted otherwise.

`AMQP_SERVER_PURE_PYTHON=1` uses the interpreted source; `AMQP_SERVER_REQUIRE_COMPILED=1`
refuses to import without the compiled one. `COMPILED` tells which is live.

    encode_chunk(messages, base_offset, offset_deltas, first_timestamp_ns,
                 timestamp_deltas_ns, salt, transaction_id=b"") -> bytes

Encode one data chunk. `messages` are at least one, as `appendlog.layout.message` draws them;
they are copied. `offset_deltas` strictly increase in [0, 2^32); None means 0, 1, 2, ...
`timestamp_deltas_ns` are >= 0 and saturate at 2^32 - 1; None means all 0. `salt` is
`LogIdentity.salt`. `transaction_id` is 16 bytes or empty. Raises ValueError for anything
else, and for a message whose lengths do not add up; nothing half-made leaves.

    walk_chunks(data, position, end, salt, from_offset, until_offset, max_records,
                max_bytes, offsets, timestamps_ns, messages)
        -> (status, position, next_offset)

Walk the chunks of `data[position:end]` and append each record with an offset in
`[from_offset, until_offset)` to the three lists (messages are copies), at most
`max_records` of them, and no more once their messages reach `max_bytes` (so one record
always fits; both must be >= 1). `data` is `bytes`. Stops with

- WALK_END: at `end`, at `until_offset`, or at a limit,
- WALK_SHORT: the bytes from `position` are the beginning of a chunk that passes `end`,
- WALK_FAULT: no valid chunk stands at `position`, or it has a lower base offset than the
  chunk before it,
- WALK_COMPRESSED: a valid chunk stands at `position` that `expand_chunk` has to open first.

`position` is where the next walk begins: the start of a chunk, of the same one when a
limit was met inside it. `next_offset` is the lowest offset that was not looked at, at
least `from_offset`. Every chunk that is passed or cut from has had its CRC checked.
"""

import os
from typing import Protocol

from appendlog.layout import _records_py
from appendlog.layout._records_py import WALK_COMPRESSED, WALK_END, WALK_FAULT, WALK_SHORT

__all__ = [
    "COMPILED",
    "WALK_COMPRESSED",
    "WALK_END",
    "WALK_FAULT",
    "WALK_SHORT",
    "RecordsKernel",
    "encode_chunk",
    "load_kernel",
    "walk_chunks",
]


class RecordsKernel(Protocol):
    """What both builds of the kernel offer; documented at the top of this module."""

    def encode_chunk(
        self,
        messages: list[bytes],
        base_offset: int,
        offset_deltas: list[int] | None,
        first_timestamp_ns: int,
        timestamp_deltas_ns: list[int] | None,
        salt: int,
        transaction_id: bytes = b"",
    ) -> bytes:
        """Encode one data chunk."""

    def walk_chunks(
        self,
        data: bytes,
        position: int,
        end: int,
        salt: int,
        from_offset: int,
        until_offset: int,
        max_records: int,
        max_bytes: int,
        offsets: list[int],
        timestamps_ns: list[int],
        messages: list[bytes],
    ) -> tuple[int, int, int]:
        """Walk many chunks."""


def load_kernel() -> tuple[RecordsKernel, bool]:
    """Return the kernel that the environment asks for, and whether it is compiled.

    Raises:
        ImportError: AMQP_SERVER_REQUIRE_COMPILED=1 and there is no compiled kernel.
    """
    if os.environ.get("AMQP_SERVER_PURE_PYTHON") == "1":
        return _records_py, False
    try:
        import appendlog.layout._records_c as compiled
    except ImportError:
        if os.environ.get("AMQP_SERVER_REQUIRE_COMPILED") == "1":
            raise
        return _records_py, False
    return compiled, True


_kernel, COMPILED = load_kernel()
encode_chunk = _kernel.encode_chunk
walk_chunks = _kernel.walk_chunks
