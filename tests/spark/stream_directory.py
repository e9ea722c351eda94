"""A data directory with queues that streams read, and what is asked of their offsets."""

import pickle
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from appendlog.spark.source.stream_reader import LogStreamReader
from metadata.paths import document_path
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.stream_engine import reader_of

ALL = ReadAllAvailable()
NO_QUEUE = {"": {"version": 1, "vhost": "/"}}


def ends(offsets: dict[str, Any]) -> dict[str, int]:
    return {queue: fields["0"] for queue, fields in offsets.items()}


def offsets_of(reader: LogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [
        offset
        for partition in reader.partitions(start, end)
        for rows in pickle.loads(pickle.dumps(reader)).read(partition)
        for offset in rows.column("offset").to_pylist()
    ]


def numbers(queue: str, count: int, start: int = 0) -> list[tuple[str, int]]:
    return [(queue, offset) for offset in range(start, count)]


class QueueDirectory:
    """A data directory with queues."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.queues: dict[str, StoredQueue] = {}
        self.readers: list[LogStreamReader] = []

    def add(self, queue: str, count: int = 0, vhost: str = "/") -> StoredQueue:
        stored = self.queues[queue] = store_queue(self.path, queue, vhost, segment_bytes=4096)
        stored.append(plain_messages(count), step=10)
        return stored

    def delete(self, queue: str) -> None:
        """Delete a queue as the broker does: its definition first."""
        stored = self.queues.pop(queue)
        document_path(self.path / "metadata", "queues", stored.location.vhost, queue).unlink()
        stored.close()
        for path in stored.location.directory.iterdir():
            path.unlink()
        stored.location.directory.rmdir()

    def reader(self, subscribe: str = "orders", **options: str) -> LogStreamReader:
        way = "subscribePattern" if "." in subscribe else "subscribe"
        reader = reader_of(self.path, **{way: subscribe, "maxBytesPerPartition": "1000"}, **options)
        self.readers.append(reader)
        return reader

    def leases(self) -> list[Path]:
        return sorted((self.path / "leases").glob("*.json"))
