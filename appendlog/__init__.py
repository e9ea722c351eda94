"""The append log of a queue: segments, chunks, recovery, group flush, retention.

A synchronous library, independent of AMQP methods, sockets and event loops.
docs/log-format.md describes the format.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from appendlog.append import Append
from appendlog.errors import (
    CorruptRecordError,
    LogClosedError,
    LogError,
    LogFailedError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    UnsupportedFormatError,
)
from appendlog.files.descriptors import Descriptors
from appendlog.files.durable_directories import DurableDirectories
from appendlog.files.filesystem import FileSystem
from appendlog.flushing.flusher import Flusher
from appendlog.flushing.requests import (
    CloseRequest,
    CompactRequest,
    DeleteRequest,
    FlushRequest,
    FlushResult,
    RemoveSettledRequest,
    ReopenRequest,
)
from appendlog.identity import LogIdentity
from appendlog.layout.large_chunk import LARGE_MESSAGE_BYTES, Chunk, LargeChunk
from appendlog.layout.message import MessageView, decode_message, encode_message
from appendlog.layout.records import COMPILED, cut_messages, encode_chunk, walk_chunks
from appendlog.layout.summary import SegmentSummary
from appendlog.log import Log
from appendlog.options import SEGMENT_BYTES_MAX, Compression, LogOptions
from appendlog.reclaim.retention import RetentionPolicy
from appendlog.recovery.recovery_report import RecoveryReport
from appendlog.segments.read_result import ReadResult, Records

if TYPE_CHECKING:
    from appendlog.embedded.follower import LogFollower
    from appendlog.embedded.log_writer import LogWriter
    from appendlog.embedded.options import DURABLE, EDGE, STORAGE, THROUGHPUT, EmbeddedOptions
    from appendlog.embedded.records import AppendedRange, Record, StoredRecord
    from appendlog.embedded.writer_statistics import WriterStatistics
    from appendlog.reader import LogReader
    from appendlog.split_reader import Split, SplitReader

__all__ = [
    "COMPILED",
    "DURABLE",
    "EDGE",
    "LARGE_MESSAGE_BYTES",
    "SEGMENT_BYTES_MAX",
    "STORAGE",
    "THROUGHPUT",
    "Append",
    "AppendedRange",
    "Chunk",
    "CloseRequest",
    "CompactRequest",
    "Compression",
    "CorruptRecordError",
    "DeleteRequest",
    "Descriptors",
    "DurableDirectories",
    "EmbeddedOptions",
    "FileSystem",
    "FlushRequest",
    "FlushResult",
    "Flusher",
    "LargeChunk",
    "Log",
    "LogClosedError",
    "LogError",
    "LogFailedError",
    "LogFollower",
    "LogIdentity",
    "LogOptions",
    "LogReader",
    "LogWriter",
    "MessageView",
    "OffsetOutOfRangeError",
    "ReadResult",
    "Record",
    "RecordTooLargeError",
    "Records",
    "RecoveryReport",
    "RemoveSettledRequest",
    "ReopenRequest",
    "RetentionPolicy",
    "SegmentSummary",
    "Split",
    "SplitReader",
    "StoredRecord",
    "UnsupportedFormatError",
    "WriterStatistics",
    "cut_messages",
    "decode_message",
    "encode_chunk",
    "encode_message",
    "walk_chunks",
]

_LATE: Final = {
    "AppendedRange": "appendlog.embedded.records",
    "DURABLE": "appendlog.embedded.options",
    "EDGE": "appendlog.embedded.options",
    "EmbeddedOptions": "appendlog.embedded.options",
    "LogFollower": "appendlog.embedded.follower",
    "LogReader": "appendlog.reader",
    "LogWriter": "appendlog.embedded.log_writer",
    "Record": "appendlog.embedded.records",
    "STORAGE": "appendlog.embedded.options",
    "Split": "appendlog.split_reader",
    "SplitReader": "appendlog.split_reader",
    "StoredRecord": "appendlog.embedded.records",
    "THROUGHPUT": "appendlog.embedded.options",
    "WriterStatistics": "appendlog.embedded.writer_statistics",
}
"""Modules of the names that only embedding programs and readers use; the server skips them."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the exported names have any type
    """Import one of the late names at its first use, so that a server never loads its module."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATE[name]), name)
    return value
