"""Damage as the text of a column: JSON, so that a query can look into it."""

import base64
import json
from typing import Final

from appendlog.segments.damaged_range import DamagedRange
from appendlog.spark.planning.queues import QueueLog
from appendlog.split_reader import SplitReader

BYTES_MAX: Final = 64 << 10
"""Of a damaged range, this many bytes at most are shown."""


def corrupt_text(reader: SplitReader, log: QueueLog, damage: DamagedRange) -> str:
    """Return all that is known about a damaged range.

    `from` and `to` are positions in the segment's file; `bytes` is base64, cut off behind
    `BYTES_MAX` bytes, and null if the file is gone by now.

    Args:
        reader: Which told of the damage.
        log: Of which.
        damage: What it told.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        content = base64.b64encode(reader.damaged_bytes(damage, BYTES_MAX)).decode("ascii")
    except FileNotFoundError:
        content = None
    return json.dumps(
        {
            "vhost": _clean(log.vhost),
            "queue": _clean(log.queue),
            "segment": damage.segment,
            "from": damage.start_position,
            "to": damage.end_position,
            "start_offset": damage.start_offset,
            "end_offset": damage.end_offset,
            "reason": damage.reason,
            "bytes": content,
        },
        ensure_ascii=False,
    )


def _clean(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
