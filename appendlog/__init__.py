"""The append log of a queue: segments, chunks, recovery, group flush, retention.

A synchronous library; knows nothing of AMQP methods, sockets or event loops. The format
is drawn in docs/log-format.md.
"""

from appendlog.descriptors import Descriptors
from appendlog.errors import (
    CorruptRecordError,
    LogError,
    LogFailedError,
    OffsetOutOfRangeError,
    UnsupportedFormatError,
)
from appendlog.filesystem import FileSystem
from appendlog.flusher import (
    CloseRequest,
    DeleteRequest,
    Flusher,
    FlushRequest,
    FlushResult,
    RemoveSettledRequest,
    ThreadFlusher,
)
from appendlog.identity import LogIdentity
from appendlog.log import Log
from appendlog.message import MessageView, decode_message, encode_message
from appendlog.options import LogOptions
from appendlog.reader import LogReader, Split
from appendlog.records import COMPILED, encode_chunk, walk_chunks
from appendlog.recovery_report import RecoveryReport
from appendlog.segment_reader import ReadResult
from appendlog.summary import SegmentSummary

__all__ = [
    "COMPILED",
    "CloseRequest",
    "CorruptRecordError",
    "DeleteRequest",
    "Descriptors",
    "FileSystem",
    "FlushRequest",
    "FlushResult",
    "Flusher",
    "Log",
    "LogError",
    "LogFailedError",
    "LogIdentity",
    "LogOptions",
    "LogReader",
    "MessageView",
    "OffsetOutOfRangeError",
    "ReadResult",
    "RecoveryReport",
    "RemoveSettledRequest",
    "SegmentSummary",
    "Split",
    "ThreadFlusher",
    "UnsupportedFormatError",
    "decode_message",
    "encode_chunk",
    "encode_message",
    "walk_chunks",
]
