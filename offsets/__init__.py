"""Settled offsets of queues and groups, their checkpoints, and the redo journal."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from offsets.checkpoint import CheckpointStore, WrittenRound
from offsets.checkpoint_reading import CheckpointRecovery, read_checkpoint
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
from offsets.known_ends import known_ends
from offsets.queue_checkpoint import QueueCheckpoint, QueueSnapshot, decode_checkpoint
from offsets.redo_journal import RedoJournal
from offsets.redo_reading import RedoRecovery, read_redo_journal
from offsets.redo_transaction import RedoSettled, RedoTarget, RedoTransaction
from offsets.settlement import Settlement

if TYPE_CHECKING:
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
    "known_ends",
    "list_groups",
    "read_checkpoint",
    "read_redo_journal",
    "remove_group",
]

_LATE: Final = {
    "CleanUp": "offsets.consuming.clean_up",
    "ConsumedBatch": "offsets.consuming.batch",
    "Consumer": "offsets.consuming.consumer",
    "ConsumerStatistics": "offsets.consuming.consumer_statistics",
    "GroupPlace": "offsets.consuming.groups",
    "GroupStatistics": "offsets.consuming.root_statistics",
    "Lag": "offsets.consuming.consumer_statistics",
    "LogCatalog": "offsets.consuming.catalog",
    "LogCleanUp": "offsets.consuming.clean_up",
    "LogPlace": "offsets.consuming.catalog",
    "LogRoot": "offsets.consuming.root",
    "OnError": "offsets.consuming.processing",
    "Position": "offsets.consuming.position",
    "ProcessOptions": "offsets.consuming.processing",
    "ProcessStatistics": "offsets.consuming.processing",
    "RootLogStatistics": "offsets.consuming.root_statistics",
    "ShardedLog": "offsets.consuming.sharded_log",
    "dead_letters_to": "offsets.consuming.processing",
    "list_groups": "offsets.consuming.groups",
    "remove_group": "offsets.consuming.groups",
}
"""Modules of the names that only programs without a server use; the server skips them."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the exported names have any type
    """Import one of the late names at its first use, so that a server never loads its module."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATE[name]), name)
    return value
