"""What has been settled: ack floors, acked ranges and their checkpoints; and the redo journal."""

from offsets.checkpoint import CheckpointStore, WrittenRound
from offsets.checkpoint_reading import CheckpointRecovery, read_checkpoint
from offsets.errors import (
    CheckpointFailedError,
    OffsetsError,
    RedoFailedError,
    RedoUnknownError,
    UnsupportedCheckpointError,
    UnsupportedRedoError,
)
from offsets.queue_checkpoint import QueueCheckpoint, QueueSnapshot, decode_checkpoint
from offsets.redo_journal import RedoJournal
from offsets.redo_reading import RedoRecovery, read_redo_journal
from offsets.redo_transaction import RedoSettled, RedoTarget, RedoTransaction
from offsets.settlement import Settlement

__all__ = [
    "CheckpointFailedError",
    "CheckpointRecovery",
    "CheckpointStore",
    "OffsetsError",
    "QueueCheckpoint",
    "QueueSnapshot",
    "RedoFailedError",
    "RedoJournal",
    "RedoRecovery",
    "RedoSettled",
    "RedoTarget",
    "RedoTransaction",
    "RedoUnknownError",
    "Settlement",
    "UnsupportedCheckpointError",
    "UnsupportedRedoError",
    "WrittenRound",
    "decode_checkpoint",
    "read_checkpoint",
    "read_redo_journal",
]
