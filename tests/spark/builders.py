"""Data directories with a queue in them, written without a server."""

import uuid
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from amqp_server.protocol.field_values import DecimalValue, FieldValue, table_of
from amqp_server.protocol.properties import Properties
from appendlog import Append, Compression, Log, LogOptions, encode_chunk, encode_message
from appendlog.files.descriptors import Descriptors
from appendlog.identity import LogIdentity
from appendlog.layout.message import PERSISTENT
from appendlog.segments.read_result import Records
from appendlog.spark.planning.queues import QueueLog
from metadata.document import Document, encode_document
from metadata.names import log_directory
from metadata.paths import document_path

START_NS = 1_700_000_000_000_000_000


@dataclass
class StoredQueue:
    """A queue on disk: its definition and an open log."""

    storage_path: Path
    location: QueueLog
    log: Log
    descriptors: Descriptors

    def append(self, messages: Sequence[bytes], sync: bool = True, step: int = 50) -> None:
        """Append messages, `step` to a chunk, a millisecond between chunks."""
        for at in range(0, len(messages), step):
            base = self.log.log_end_offset
            part = list(messages[at : at + step])
            chunk = encode_chunk(
                part, base, None, START_NS + base * 1_000_123, None, self.log.identity.salt
            )
            self.log.append(Append([chunk], base + len(part), sync=sync))

    def append_at(self, messages: Sequence[bytes], timestamp_ns: int) -> None:
        """Append messages as one chunk, all of one time."""
        base = self.log.log_end_offset
        salt = self.log.identity.salt
        chunk = encode_chunk(list(messages), base, None, timestamp_ns, None, salt)
        self.log.append(Append([chunk], base + len(messages), sync=True))

    def skip(self, count: int) -> None:
        """Let the log go on `count` offsets further: a gap, as a transient queue has them."""
        self.log.append(Append([], self.log.log_end_offset + count, sync=True))

    def segments(self) -> list[Path]:
        """Return the segment files, oldest first."""
        return sorted(self.location.directory.glob("*.log"))

    def close(self) -> None:
        """Close the log."""
        self.log.close()
        self.descriptors.close()


def store_queue(
    storage_path: Path,
    queue: str = "orders",
    vhost: str = "/",
    segment_bytes: int = 1 << 20,
    incarnation: uuid.UUID | None = None,
    compression: Compression = Compression.NONE,
) -> StoredQueue:
    """Declare a durable queue on disk and open its log."""
    incarnation = incarnation or uuid.uuid4()
    body = {"incarnation": str(incarnation), "auto_delete": False, "arguments": {}}
    path = document_path(storage_path / "metadata", "queues", vhost, queue)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_document(Document("queues", vhost, queue, body)))
    directory = log_directory(storage_path, vhost, queue, incarnation)
    descriptors = Descriptors(4)
    options = LogOptions(
        segment_bytes=segment_bytes,
        index_interval_bytes=256,
        descriptors=descriptors,
        compression=compression,
    )
    log, _ = Log.open(directory, LogIdentity(vhost, queue, incarnation), options)
    return StoredQueue(
        storage_path, QueueLog(vhost, queue, incarnation, directory), log, descriptors
    )


def plain_message(number: int, body_bytes: int = 40) -> bytes:
    """Return a message that tells its number."""
    properties = Properties(content_type="text/plain", delivery_mode=2).encode()
    body = (b"%d" % number).ljust(body_bytes, b".")
    return encode_message(PERSISTENT, b"shop", b"order.new", properties, body)


def plain_messages(count: int, first: int = 0, body_bytes: int = 40) -> list[bytes]:
    """Return numbered messages."""
    return [plain_message(number, body_bytes) for number in range(first, first + count)]


def records_of(
    messages: Sequence[bytes],
    offsets: Sequence[int] | None = None,
    timestamps_ns: Sequence[int] | None = None,
) -> Records:
    """Return messages as a read of a log gives them, with other bytes around each."""
    buffer, positions = bytearray(b"\xa5"), array("I")
    for message in messages:
        positions.append(len(buffer))
        buffer += message + b"\xa5"
    return Records(
        bytes(buffer),
        range(len(messages)) if offsets is None else offsets,
        positions,
        array("I", map(len, messages)),
        array("q", [1_999] * len(messages) if timestamps_ns is None else timestamps_ns),
    )


HEADER_KINDS = {
    "text": FieldValue(b"S", b"\xc3\xa9t\xc3\xa9"),
    "raw": FieldValue(b"S", b"\xff\x00"),
    "octets": FieldValue(b"x", b"plain"),
    "yes": FieldValue(b"t", True),
    "no": FieldValue(b"t", False),
    "int8": FieldValue(b"b", -128),
    "uint8": FieldValue(b"B", 255),
    "int16": FieldValue(b"s", -32768),
    "uint16": FieldValue(b"u", 65535),
    "int32": FieldValue(b"I", -(2**31)),
    "uint32": FieldValue(b"i", 2**32 - 1),
    "int64": FieldValue(b"l", -(2**63)),
    "int64L": FieldValue(b"L", 2**63 - 1),
    "time": FieldValue(b"T", 1_700_000_000),
    "float": FieldValue(b"f", 0.5),
    "double": FieldValue(b"d", 0.1),
    "nan": FieldValue(b"d", float("nan")),
    "decimal": FieldValue(b"D", DecimalValue(2, 314)),
    "nothing": FieldValue(b"V", None),
    "list": FieldValue(
        b"A", [FieldValue(b"I", 1), FieldValue(b"S", b"\xfe"), FieldValue(b"V", None)]
    ),
    "table": FieldValue(b"F", table_of({"a": {"b": [True, "\u00e9", 1.5]}})),
    "": FieldValue(b"S", b""),
}


def all_kinds_of_messages() -> list[bytes]:
    """Return messages with every property, every kind of header, and odd ends of each."""
    full = Properties(
        content_type="application/json",
        content_encoding="gzip",
        headers=HEADER_KINDS,
        delivery_mode=2,
        priority=255,
        correlation_id="c-1",
        reply_to="answers",
        expiration="60000",
        message_id="m-1",
        timestamp=1_700_000_001,
        type="order",
        user_id="guest",
        app_id="shop",
        cluster_id="c",
    )
    properties = [
        full,
        Properties(),
        Properties(headers={}),
        Properties(delivery_mode=1, priority=0),
        Properties(content_type="", message_id="", correlation_id=""),
        Properties(timestamp=0),
        Properties(timestamp=2**64 - 1),
        Properties(timestamp=9_223_372_036_854),
        Properties(content_type="\u00e9t\u00e9", app_id="\udcff"),
    ]
    bodies = [b"", b"x", bytes(range(256)), b"AQLC" * 40]
    routes = [(b"", b""), (b"shop", b"order.new"), (b"\xff", "\u20ac".encode() * 85)]
    return [
        encode_message(PERSISTENT, *routes[at % 3], each.encode(), bodies[at % 4])
        for at, each in enumerate(properties * 4)
    ]
