"""Bringing exported messages into a queue of a running server, through its control socket.

    client = ImportClient("/var/lib/amqp-server")
    with client.begin("orders", source="...") as work:
        work.append(messages, start=0, end=1000)

Messages are larger than requests, so they go through a file beside the server's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from amqp_server.control.client import ask
from amqp_server.imports.batch_file import encode_batch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType


class ImportClient:
    """Imports into the queues of the server that runs on a data directory.

    Args:
        storage_path: The server's data directory; its user's alone may connect.
    """

    def __init__(self, storage_path: str | Path) -> None:
        """Prepare; every request is a connection of its own."""
        self._storage_path = Path(storage_path)

    def look(self, queue: str, *, source: str, vhost: str = "/") -> ImportProgress:
        """Return what has come of an export; nothing changes.

        Args:
            queue: A durable queue.
            source: Names the queue that was exported, the same each time.
            vhost: Virtual host of the queue.

        Raises:
            UnreachableError: No server runs there.
            ControlError: There is no such queue, or it cannot take messages.
        """
        return ImportProgress(self._begin(queue, vhost, source, again=False, dry_run=True))

    def begin(
        self, queue: str, *, source: str, vhost: str = "/", again: bool = False
    ) -> ImportWork:
        """Begin an import, or go on with it.

        Args:
            queue: A durable queue.
            source: Names the queue that was exported, the same each time.
            vhost: Virtual host of the queue.
            again: Whether all of it is to come once more.

        Raises:
            UnreachableError: No server runs there.
            ControlError: There is no such queue, or it cannot take messages.
        """
        told = self._begin(queue, vhost, source, again=again, dry_run=False)
        return ImportWork(self._storage_path, told)

    def _begin(
        self, queue: str, vhost: str, source: str, *, again: bool, dry_run: bool
    ) -> dict[str, Any]:
        told = ask(
            self._storage_path,
            "imports.begin",
            vhost=vhost,
            queue=queue,
            source=source,
            again=again,
            dry_run=dry_run,
        )
        assert isinstance(told, dict), "an object, by docs/control.md"
        return told


class ImportProgress:
    """What has come of an export.

    Args:
        told: By the server.

    Attributes:
        ranges: Offsets of the exported queue that have come, in order and disjoint.
        partial: Per offset at which a batch began that was cut short: how many messages of it
            have come; of persistent ones, unless the queue is a stream.
        imported: Messages that have come, in all.
        counts_all: Whether `partial` counts transient messages too.
    """

    def __init__(self, told: dict[str, Any]) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.partial: dict[int, int] = {}
        self.imported = 0
        self.counts_all: bool = told.get("counts_all", False)
        self.take(told)

    def take(self, told: dict[str, Any]) -> None:
        """Take what the server tells."""
        self.ranges = [(start, end) for start, end in told["ranges"]]
        self.partial = {start: count for start, count in told["partial"]}  # noqa: C416 - of lists
        self.imported = told["imported"]


class ImportWork:
    """One import that was begun; a context manager that ends it when nothing went wrong.

    Args:
        storage_path: The server's data directory.
        told: By the server.

    Attributes:
        progress: What has come.
    """

    def __init__(self, storage_path: Path, told: dict[str, Any]) -> None:
        self.progress = ImportProgress(told)
        self._storage_path = storage_path
        self._name, self._token = told["name"], told["token"]
        self._batch = Path(told["batch"])

    def __enter__(self) -> Self:
        """Go on."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it; after an error the server keeps what it needs to go on."""
        if kind is None:
            told = ask(self._storage_path, "imports.end", name=self._name, token=self._token)
            self.progress.take(told)
        else:
            self._batch.unlink(missing_ok=True)

    def append(self, messages: Sequence[bytes], start: int, end: int) -> None:
        """Hand messages over; they are on the disk for good when this returns.

        Args:
            messages: As docs/log-format.md draws them, section 5; `BATCH_BYTES` at most or one.
            start: Offset at which the batch begins in the exported queue.
            end: Behind the last one.

        Raises:
            UnreachableError: The server went away.
            ControlError: They were not taken, or not all.
            OSError: The file cannot be written.
        """
        self._batch.write_bytes(encode_batch(messages))
        told = ask(
            self._storage_path,
            "imports.append",
            name=self._name,
            token=self._token,
            start=start,
            end=end,
        )
        self.progress.take(told)
