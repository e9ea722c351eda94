"""This server as the migration uses it, through its control socket. Everything here blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.control.client import ControlError, ask, follow
from amqp_server.control.import_client import ImportClient
from amqp_server.control.protocol import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from amqp_server.control.import_client import ImportWork

_PAGE: Final = 500


class Target:
    """The server that runs on a data directory.

    Args:
        storage_path: Its data directory.
    """

    def __init__(self, storage_path: Path) -> None:
        self.storage_path = storage_path
        self._imports = ImportClient(storage_path)

    def check(self) -> None:
        """Do nothing if it runs.

        Raises:
            UnreachableError: It does not.
        """
        ask(self.storage_path, "probe")

    def has_connection(self, mark: str) -> bool:
        """Return whether a client is connected whose properties contain a text."""
        attributes: list[str] = []

        def take(progress: dict[str, Any]) -> None:
            attributes.extend(str(row[1]) for row in progress.get("rows", ()))

        arguments = {"since": 0, "kinds": ["connections"]}
        follow(self.storage_path, "management.changes", arguments, take)
        return any(mark in each for each in attributes)

    def begin(self, vhost: str, queue: str, source: str) -> ImportWork:
        """Begin to put messages into a queue, or continue; the queue drops nothing for them.

        Args:
            vhost: Its virtual host.
            queue: Its name.
            source: Where the messages come from; the same for every run.

        Raises:
            UnreachableError: The server does not run.
            ControlError: There is no such queue, or it cannot take messages.
        """
        return self._imports.begin(queue, vhost=vhost, source=source, may_drop=False)

    def ready(self, vhost: str, queue: str) -> int | None:
        """Return the ready messages of a queue; None if there is no such queue."""
        row = self._row(vhost, queue)
        return None if row is None else int(row["ready"])

    def expiries(self) -> dict[tuple[str, str], float]:
        """Return after how many seconds without use the queues expire that do so by a policy."""
        found = {}
        for row in self._rows():
            milliseconds = row["effective_policy_definition"].get("expires")
            if milliseconds is not None and "vhost" in row and "name" in row:
                found[row["vhost"], row["name"]] = milliseconds / 1000
        return found

    def use(self, vhost: str, queue: dict[str, Any]) -> None:
        """Declare a queue again: it is in use, and does not expire now.

        Args:
            vhost: Its virtual host.
            queue: Its entry in a definitions file.
        """
        arguments = queue.get("arguments")
        ask(
            self.storage_path,
            "queues.declare",
            vhost=vhost,
            name=queue["name"],
            durable=queue.get("durable") is not False,
            auto_delete=queue.get("auto_delete") is True,
            arguments=arguments if isinstance(arguments, dict) else {},
        )

    def _row(self, vhost: str, queue: str) -> dict[str, Any] | None:
        try:
            page = ask(
                self.storage_path, "queues.stats", vhost=vhost, queue=queue, after="", limit=1
            )
        except ControlError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return None
            raise
        row: dict[str, Any] | None = next(iter(page["queues"]), None)
        return row

    def _rows(self) -> Iterator[dict[str, Any]]:
        after = ""
        while True:
            page = ask(
                self.storage_path, "queues.stats", vhost="", queue="", after=after, limit=_PAGE
            )
            yield from page["queues"]
            after = page["next"]
            if not after:
                return
