"""Octets on the disk for each message and queue."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.broker_url import BrokerUrl
from bench.capacity.memory import CHANNEL
from bench.capacity.messages import EncodedPublish, ServicePublishes
from bench.confirm_window import ConfirmWindow
from bench.connection import Connection
from bench.errors import BenchError

_BLOCK_BYTES: Final = 512
"""Unit of `st_blocks`."""
_QUEUE: Final = "measured"


@dataclass(frozen=True, slots=True)
class StoredCost:
    """What a message has on the disk beside its body.

    Attributes:
        header_bytes: Mean octets of properties, headers, exchange and routing key, as published.
        framing_bytes: Mean octets of the log beside body and header.
    """

    header_bytes: float
    framing_bytes: float


def measure_stored(url: BrokerUrl, data: Path, count: int, *, at_once: int) -> StoredCost:
    """Publish messages of services to one queue, and look how long its log has become.

    Args:
        url: Address of the broker.
        data: Its data directory.
        count: Messages, a multiple of `at_once`.
        at_once: Messages that are written together; the next ones follow after their confirms.

    Raises:
        BenchError: A publish was refused, or a message was lost.
    """
    publishes = ServicePublishes(CHANNEL, seed=3)
    with Connection(url, CHANNEL) as client:
        client.declare_queue(_QUEUE, durable=True)
        client.select_confirms()
        before = _log_bytes(data)
        sent: list[EncodedPublish] = []
        window = ConfirmWindow()
        while len(sent) < count:
            batch = [publishes.encode(_QUEUE) for _ in range(at_once)]
            client.send(b"".join(each.octets for each in batch))
            sent += batch
            while window.settled < len(sent):
                window.feed(client.receive())
        lost = count - client.count_ready(_QUEUE)
        if lost or window.nacked:
            raise BenchError(f"LOST {lost}, refused {window.nacked}")
        stored_bytes = _log_bytes(data) - before
        client.delete_queue(_QUEUE)
    header_bytes = sum(each.header_bytes for each in sent)
    framing_bytes = stored_bytes - header_bytes - sum(each.body_bytes for each in sent)
    return StoredCost(header_bytes / count, framing_bytes / count)


def allocated_bytes(data: Path) -> int:
    """Return what the files and directories of a data directory occupy."""
    return sum(each.lstat().st_blocks for each in data.rglob("*")) * _BLOCK_BYTES


def _log_bytes(data: Path) -> int:
    """Return the sizes of the measured queue's segments and indexes."""
    files = data.glob(f"logs/*/{_QUEUE}/*/*.*")
    return sum(each.stat().st_size for each in files if each.suffix in {".log", ".index"})
