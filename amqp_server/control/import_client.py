"""Imports exported messages into a queue of a running server through its control socket.

    client = ImportClient("/var/lib/amqp-server")
    with client.begin("orders", source="...") as work:
        work.append(messages, start=0, end=1000)

Messages may be larger than a request, so they are passed in a file in the data directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from amqp_server.admin.imports.batch_file import encode_batch
from amqp_server.control.client import ask

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType


class ImportClient:
    """Imports messages into queues of the server that runs on a data directory.

    Args:
        storage_path: The server's data directory; only the server's user may connect.
    """

    def __init__(self, storage_path: str | Path) -> None:
        """Store the path; each request opens its own connection."""
        self._storage_path = Path(storage_path)

    def look(self, queue: str, *, source: str, vhost: str = "/") -> ImportProgress:
        """Return how much of an export has been imported; changes nothing.

        Args:
            queue: Name of a durable queue.
            source: Name of the exported queue; must be the same for every import of it.
            vhost: Virtual host of the queue.

        Raises:
            UnreachableError: No server runs there.
            ControlError: The queue does not exist, or cannot take messages.
        """
        return ImportProgress(self._begin(queue, vhost, source, again=False, dry_run=True))

    def begin(
        self,
        queue: str,
        *,
        source: str,
        vhost: str = "/",
        again: bool = False,
        may_drop: bool = True,
    ) -> ImportWork:
        """Begin an import, or continue it.

        Args:
            queue: Name of a durable queue.
            source: Name of the exported queue; must be the same for every import of it.
            vhost: Virtual host of the queue.
            again: Whether to import everything once more.
            may_drop: Whether a queue with a length limit may drop its oldest messages for these;
                if not, it takes what it has room for: `details` of the error has `taken`.

        Raises:
            UnreachableError: No server runs there.
            ControlError: The queue does not exist, or cannot take messages.
        """
        reply = self._begin(queue, vhost, source, again=again, dry_run=False, may_drop=may_drop)
        return ImportWork(self._storage_path, reply)

    def _begin(
        self,
        queue: str,
        vhost: str,
        source: str,
        *,
        again: bool,
        dry_run: bool,
        may_drop: bool = True,
    ) -> dict[str, Any]:
        reply = ask(
            self._storage_path,
            "imports.begin",
            vhost=vhost,
            queue=queue,
            source=source,
            again=again,
            dry_run=dry_run,
            may_drop=may_drop,
        )
        assert isinstance(reply, dict), "an object, by docs/control.md"
        return reply


class ImportProgress:
    """Progress of an import.

    Args:
        reply: Reply of the server.

    Attributes:
        ranges: Imported offsets of the exported queue, as disjoint ranges in order.
        partial: For each batch that was cut short, its first offset and how many of its messages
            were imported; counts only persistent ones unless the queue is a stream.
        imported: Total of imported messages.
        counts_all: Whether `partial` counts transient messages too.
    """

    def __init__(self, reply: dict[str, Any]) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.partial: dict[int, int] = {}
        self.imported = 0
        self.counts_all: bool = reply.get("counts_all", False)
        self.take(reply)

    def take(self, reply: dict[str, Any]) -> None:
        """Update the progress from a reply of the server."""
        self.ranges = [(start, end) for start, end in reply["ranges"]]
        self.partial = {start: count for start, count in reply["partial"]}  # noqa: C416 - of lists
        self.imported = reply["imported"]


class ImportWork:
    """One import; as a context manager it ends the import if the block raised nothing.

    Args:
        storage_path: The server's data directory.
        reply: Reply of the server to the begin.

    Attributes:
        progress: How much has been imported.
    """

    def __init__(self, storage_path: Path, reply: dict[str, Any]) -> None:
        self.progress = ImportProgress(reply)
        self._storage_path = storage_path
        self._name = reply["name"]
        self._token = reply["token"]
        self._batch = Path(reply["batch"])

    def __enter__(self) -> Self:
        """Return the import itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the import; after an error keep it open, so that it can continue."""
        if kind is None:
            reply = ask(self._storage_path, "imports.end", name=self._name, token=self._token)
            self.progress.take(reply)
        else:
            self._batch.unlink(missing_ok=True)

    def append(self, messages: Sequence[bytes], start: int, end: int) -> None:
        """Import a batch of messages; they are on the disk when this returns.

        Args:
            messages: Messages as docs/log-format.md, section 5, defines them; together at most
                `BATCH_BYTES`, or a single one.
            start: Offset of the first message in the exported queue.
            end: Offset after the last message, exclusive.

        Raises:
            UnreachableError: The server ended.
            ControlError: The server refused the batch, or took only a part of it.
            OSError: The file cannot be written.
        """
        self._batch.write_bytes(encode_batch(messages))
        reply = ask(
            self._storage_path,
            "imports.append",
            name=self._name,
            token=self._token,
            start=start,
            end=end,
        )
        self.progress.take(reply)
