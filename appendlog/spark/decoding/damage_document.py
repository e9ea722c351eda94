"""Describes damage as a JSON object, for corrupt rows and quarantined files."""

import base64
import json
from contextlib import suppress

from appendlog.segments.damaged_range import DamagedRange
from appendlog.spark.planning.queues import QueueLog
from appendlog.split_reader import SplitReader
from metadata.name_texts import escaped_text


def damage_document(
    reader: SplitReader, log: QueueLog, damage: DamagedRange, max_bytes: int
) -> str:
    """Return all that is known about a damaged range.

    Positions are those in the segment's file. `bytes` is base64; it is empty if compaction has
    replaced the file since the damage was found.

    Args:
        reader: Reader that found the damage.
        log: Log of the reader.
        damage: Damaged range.
        max_bytes: Most bytes to include; the positions say how many bytes there are.

    Raises:
        OSError: The file cannot be read.
    """
    content = b""
    with suppress(FileNotFoundError):
        content = reader.damaged_bytes(damage, max_bytes)
    return json.dumps(
        {
            "vhost": escaped_text(log.vhost),
            "queue": escaped_text(log.queue),
            "incarnation": str(log.incarnation),
            "segment": damage.segment,
            "start_position": damage.start_position,
            "end_position": damage.end_position,
            "reason": damage.reason,
            "start_offset": damage.start_offset,
            "end_offset": damage.end_offset,
            "bytes": base64.b64encode(content).decode("ascii"),
        }
    )
