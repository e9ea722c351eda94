"""What has been settled: ack floors, acked ranges and their checkpoints."""

from offsets.checkpoint import CheckpointStore
from offsets.checkpoint_reading import CheckpointRecovery, read_checkpoint
from offsets.errors import CheckpointFailedError, OffsetsError, UnsupportedCheckpointError
from offsets.queue_checkpoint import QueueCheckpoint, decode_checkpoint
from offsets.settlement import Settlement

__all__ = [
    "CheckpointFailedError",
    "CheckpointRecovery",
    "CheckpointStore",
    "OffsetsError",
    "QueueCheckpoint",
    "Settlement",
    "UnsupportedCheckpointError",
    "decode_checkpoint",
    "read_checkpoint",
]
