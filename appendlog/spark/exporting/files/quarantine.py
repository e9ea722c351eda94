"""Keeps damaged parts of a log in `_corrupt/` of the output, for people to look at.

    _corrupt/queue=<queue>/<segment>-<start>-<end>.json      positions, 20 digits each

Each file is one JSON object: `vhost, queue, incarnation, segment, start_position, end_position,
reason, start_offset, end_offset, bytes`, the last in base64. The files describe the log, so they
are right whether the export is committed or not. A second export writes the same files again.
"""

from typing import Final

from appendlog.segments.damaged_range import DamagedRange
from appendlog.spark.decoding.damage_document import damage_document
from appendlog.spark.exporting.destination import CorruptRange
from appendlog.spark.exporting.layout import folder_name
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.planning.queues import QueueLog
from appendlog.split_reader import SplitReader

CORRUPT_FOLDER: Final = "_corrupt"
KEPT_BYTES_MAX: Final = 16 << 20
"""Most bytes that are kept of a damaged part: its beginning; the positions have its size."""


def quarantine_folder(log: QueueLog) -> str:
    """Return the folder of the output for damaged parts of a log."""
    return f"{CORRUPT_FOLDER}/{folder_name(log.queue)}"


class Quarantine:
    """Damaged parts of the log that one task leaves out.

    Args:
        store: Store of the output.
        log: Damaged log.

    Attributes:
        ranges: Parts that were left out so far.
    """

    def __init__(self, store: OutputStore, log: QueueLog) -> None:
        self._store = store
        self._log = log
        self.ranges: list[CorruptRange] = []

    def add(self, damage: DamagedRange, reader: SplitReader) -> None:
        """Keep the bytes of a damaged part.

        Raises:
            OSError: The bytes cannot be written.
        """
        path = (
            f"{quarantine_folder(self._log)}/{damage.segment.partition('.')[0]}"
            f"-{damage.start_position:020d}-{damage.end_position:020d}.json"
        )
        document = damage_document(reader, self._log, damage, KEPT_BYTES_MAX)
        with self._store.open_new(path) as file:
            file.write(document.encode() + b"\n")
        self.ranges.append(
            CorruptRange(
                start=damage.start_offset,
                end=damage.end_offset,
                segment=damage.segment,
                position=damage.start_position,
                end_position=damage.end_position,
                reason=damage.reason,
                path=path,
            )
        )
