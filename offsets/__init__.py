"""What has been settled: of queues, of groups, and its checkpoints; and the redo journal."""

from offsets.checkpoint import CheckpointStore, WrittenRound
from offsets.checkpoint_reading import CheckpointRecovery, read_checkpoint
from offsets.consuming.batch import ConsumedBatch
from offsets.consuming.catalog import LogCatalog, LogPlace
from offsets.consuming.clean_up import CleanUp, LogCleanUp
from offsets.consuming.consumer import Consumer
from offsets.consuming.consumer_statistics import ConsumerStatistics, Lag
from offsets.consuming.groups import GroupPlace, list_groups, remove_group
from offsets.consuming.position import Position
from offsets.consuming.processing import (
    OnError,
    ProcessOptions,
    ProcessStatistics,
    dead_letters_to,
)
from offsets.consuming.root import LogRoot
from offsets.consuming.root_statistics import GroupStatistics, RootLogStatistics
from offsets.consuming.sharded_log import ShardedLog
from offsets.errors import (
    CheckpointFailedError,
    GroupInUseError,
    GroupLockedError,
    GroupOffsetOutOfRangeError,
    InvalidGroupNameError,
    InvalidLogNameError,
    LogNotFoundError,
    OffsetsError,
    RedoFailedError,
    RedoUnknownError,
    RegressingCommitError,
    TooManyGroupsError,
    UnknownGroupError,
    UnsupportedCheckpointError,
    UnsupportedRedoError,
)
from offsets.group_checkpoint import GroupCheckpoint, GroupSnapshot
from offsets.group_offsets import (
    GROUP_NAME_BYTES_MAX,
    GROUPS_PER_LOG_MAX,
    GroupOffsets,
    check_group_name,
)
from offsets.queue_checkpoint import QueueCheckpoint, QueueSnapshot, decode_checkpoint
from offsets.redo_journal import RedoJournal
from offsets.redo_reading import RedoRecovery, read_redo_journal
from offsets.redo_transaction import RedoSettled, RedoTarget, RedoTransaction
from offsets.settlement import Settlement

__all__ = [
    "GROUPS_PER_LOG_MAX",
    "GROUP_NAME_BYTES_MAX",
    "CheckpointFailedError",
    "CheckpointRecovery",
    "CheckpointStore",
    "CleanUp",
    "ConsumedBatch",
    "Consumer",
    "ConsumerStatistics",
    "GroupCheckpoint",
    "GroupInUseError",
    "GroupLockedError",
    "GroupOffsetOutOfRangeError",
    "GroupOffsets",
    "GroupPlace",
    "GroupSnapshot",
    "GroupStatistics",
    "InvalidGroupNameError",
    "InvalidLogNameError",
    "Lag",
    "LogCatalog",
    "LogCleanUp",
    "LogNotFoundError",
    "LogPlace",
    "LogRoot",
    "OffsetsError",
    "OnError",
    "Position",
    "ProcessOptions",
    "ProcessStatistics",
    "QueueCheckpoint",
    "QueueSnapshot",
    "RedoFailedError",
    "RedoJournal",
    "RedoRecovery",
    "RedoSettled",
    "RedoTarget",
    "RedoTransaction",
    "RedoUnknownError",
    "RegressingCommitError",
    "RootLogStatistics",
    "Settlement",
    "ShardedLog",
    "TooManyGroupsError",
    "UnknownGroupError",
    "UnsupportedCheckpointError",
    "UnsupportedRedoError",
    "WrittenRound",
    "check_group_name",
    "dead_letters_to",
    "decode_checkpoint",
    "list_groups",
    "read_checkpoint",
    "read_redo_journal",
    "remove_group",
]
