"""A data directory with one queue of typical messages of an application."""

import random
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from amqp_server.protocol.field_values import FieldValue
from amqp_server.protocol.properties import Properties
from appendlog import Append, Log, LogIdentity, LogOptions, encode_chunk, encode_message
from appendlog.layout.message import PERSISTENT
from metadata.document import Document, encode_document
from metadata.names import log_directory
from metadata.paths import document_path

QUEUE: Final = "bench"
VHOST: Final = "/"
BODY_BYTES: Final = 256
MESSAGES_PER_CHUNK: Final = 100
START_NS: Final = 1_750_000_000_000_000_000
_INTERVAL_NS: Final = 1_000_000
_TEMPLATES: Final = 997
"""Number of different bodies; the message ids are all different."""


def make_queue(storage_path: Path, messages: int) -> Path:
    """Write a durable queue of `messages` messages, and return the directory of its log.

    A message has about 463 bytes on the disk: a JSON body, one of a hundred routing keys, and the
    properties content_type, delivery_mode, message_id, timestamp, type, app_id and two headers.
    The message_id and one header differ in each message.
    """
    incarnation = uuid.uuid4()
    body = {"incarnation": str(incarnation), "auto_delete": False, "arguments": {}}
    path = document_path(storage_path / "metadata", "queues", VHOST, QUEUE)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_document(Document("queues", VHOST, QUEUE, body)))
    directory = log_directory(storage_path, VHOST, QUEUE, incarnation)
    log, _ = Log.open(directory, LogIdentity(VHOST, QUEUE, incarnation), LogOptions())
    append_messages(log, messages)
    log.close()
    return directory


def append_messages(log: Log, messages: int) -> None:
    """Append messages to the log of a queue; they are on the disk when this returns."""
    made = messages_like_an_application(messages)
    waiting: list[bytes] = []
    offset = log.log_end_offset
    end = offset + messages
    while offset < end:
        chunk = list(islice(made, MESSAGES_PER_CHUNK))
        first_ns = START_NS + offset * _INTERVAL_NS
        waiting.append(encode_chunk(chunk, offset, None, first_ns, None, log.identity.salt))
        offset += len(chunk)
        if len(waiting) == 20 or offset == end:
            log.append(Append(waiting, offset, sync=offset == end))
            waiting = []


def messages_like_an_application(count: int) -> Iterator[bytes]:
    """Return messages, the same in each call."""
    numbers = random.Random(1)
    bodies = [_body(numbers) for _ in range(_TEMPLATES)]
    marker = "0" * 32
    properties = Properties(
        content_type="application/json",
        headers={
            "x-source": FieldValue(b"S", b"checkout"),
            "x-trace": FieldValue(b"S", marker.encode()),
        },
        delivery_mode=2,
        message_id=f"m{marker}",
        timestamp=1_750_000_000,
        type="order.placed",
        app_id="shop",
    ).encode()
    for number in range(count):
        identity = f"{number * 2_654_435_761 % (1 << 64):016x}{number:016x}".encode()
        yield encode_message(
            PERSISTENT | 2,
            b"orders",
            b"orders.region-%02d.placed" % (number % 100),
            properties.replace(marker.encode(), identity),
            bodies[number % _TEMPLATES],
        )


def _body(numbers: random.Random) -> bytes:
    items = ",".join(
        f'{{"sku":"{numbers.randrange(10**8):08d}","count":{numbers.randrange(1, 9)}}}'
        for _ in range(5)
    )
    customer, total = numbers.randrange(10**9), numbers.random()
    text = f'{{"customer":{customer},"total":{total:.6f},"items":[{items}]}}'
    return text.encode().ljust(BODY_BYTES)[:BODY_BYTES]
