"""Looking into the queues of a running server from Python, through its control socket.

    client = QueueClient("/var/lib/amqp-server")
    for message in client.browse("orders", start="-100"):
        print(message["offset"], message["state"], message.get("body"))

Nothing is consumed. Blocking, and not thread-safe in the middle of an iteration: use one object
a thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amqp_server.control.client import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE_MESSAGES: Final = 1000
_BODY_WHOLE: Final = -1


class QueueClient:
    """The queues of the server that runs on a data directory.

    Args:
        storage_path: The server's data directory; its user's alone may connect.
    """

    def __init__(self, storage_path: str | Path) -> None:
        """Prepare; every request is a connection of its own."""
        self._storage_path = Path(storage_path)

    def browse(
        self,
        queue: str,
        *,
        vhost: str = "/",
        start: str = "first",
        until: str = "",
        state: str = "",
        filters: Sequence[str] = (),
        limit: int | None = None,
        body_bytes_max: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield messages in the order of their offsets, up to the end that there is now.

        Args:
            queue: Name of a queue of any type.
            vhost: Its virtual host.
            start: The first one: an offset ("120"), a number from the end ("-20"), an age
                ("1h"), a time in ISO 8601, "first" or "next".
            until: Exclusive, written as `start`; empty for the end.
            state: Only "ready", "unacked" or "settled" ones; empty for all.
            filters: Only messages that have all of these headers: "header=value".
            limit: Messages at most.
            body_bytes_max: Bytes of each body; None for all.

        Yields:
            Objects as `amqp-server browse --json` writes them: `offset`, `state`, `timestamp`,
            `exchange`, `routing_key`, `properties` with `headers`, `body`.

        Raises:
            UnreachableError: No server runs there.
            ControlError: The queue is not there, or an argument cannot be.
        """
        body_bytes = _BODY_WHOLE if body_bytes_max is None else body_bytes_max
        left = limit
        while left is None or left > 0:
            page = ask(
                self._storage_path,
                "queues.browse",
                vhost=vhost,
                queue=queue,
                start=start,
                until=until,
                state=state,
                filters=list(filters),
                limit=PAGE_MESSAGES if left is None else min(left, PAGE_MESSAGES),
                body_bytes=body_bytes,
            )
            yield from page["messages"]
            if left is not None:
                left -= len(page["messages"])
            if page["next"] >= page["until"]:
                return
            # What is published meanwhile is not asked for, or a busy queue would have no end.
            start, until = str(page["next"]), str(page["until"])
