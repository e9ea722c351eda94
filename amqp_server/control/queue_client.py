"""Browses and replays queues of a running server from Python, through its control socket.

    client = QueueClient("/var/lib/amqp-server")
    for message in client.browse("orders", start="-100"):
        print(message["offset"], message["state"], message.get("body"))
    done = client.replay("orders", start="1h", to="orders-again")
    print(done["replayed"], "messages")

All calls block. Several threads may share one object, because each request opens its own
connection.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amqp_server.control.client import ask, follow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PAGE_MESSAGES: Final = 1000
_BODY_WHOLE: Final = -1


class QueueClient:
    """Queues of the server that runs on a data directory.

    Args:
        storage_path: The server's data directory; only the server's user may connect.
    """

    def __init__(self, storage_path: str | Path) -> None:
        """Store the path; each request opens its own connection."""
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
        """Yield messages in the order of their offsets, up to the present end of the queue.

        Args:
            queue: Name of a queue of any type.
            vhost: Virtual host of the queue.
            start: Position of the first message: an offset ("120"), a number from the end ("-20"),
                an age ("1h"), a time in ISO 8601, "first" or "next".
            until: Position of the end, exclusive, written as `start`; empty for the end of the
                queue.
            state: State of the wanted messages: "ready", "unacked" or "settled"; empty for all.
            filters: Headers that wanted messages must all have: "header=value".
            limit: Largest number of messages; None for all.
            body_bytes_max: Bytes of each body to return; None for all.

        Yields:
            Objects as `amqp-server browse --json` writes them: `offset`, `state`, `timestamp`,
            `exchange`, `routing_key`, `properties` with `headers`, `body`.

        Raises:
            UnreachableError: No server runs there.
            ControlError: The queue does not exist, or an argument is invalid.
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
            # Keep the first page's end: otherwise a busy queue would never end.
            start, until = str(page["next"]), str(page["until"])

    def replay(
        self,
        queue: str,
        *,
        start: str,
        until: str = "",
        vhost: str = "/",
        to: str = "",
        filters: Sequence[str] = (),
        includes_all: bool = False,
        is_dry_run: bool = False,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Publish settled messages of a queue again; return when they are on the disk.

        They keep their properties, exchange and routing key, and get the headers `x-replayed-from`,
        `x-replayed-offset` and `x-replayed-at`. The replay stops when this process ends or
        `on_progress` raises. All messages below the last reported `next` are then replayed; later
        ones may be.

        Args:
            queue: Queue of the messages; a stream only with another queue in `to`.
            start: Position of the first message, as for `browse`; an offset must still be kept.
            until: Position of the end, exclusive, written as `start`; empty for the present end.
            vhost: Virtual host of both queues.
            to: Queue to which the messages are appended; empty for the same queue.
            filters: Headers that replayed messages must all have: "header=value".
            includes_all: Whether to replay unsettled messages too.
            is_dry_run: Whether messages are only counted.
            on_progress: Called a few times a second with an object like the result.

        Returns:
            `replayed` and `replayed_bytes`, `passed` (messages that did not match), `lost`
            (messages that damage of the log has taken), `first_offset` and `last_offset` of what
            was replayed (None: nothing), `start` and `until`, `next` (all below it is done),
            `seconds`.

        Raises:
            UnreachableError: No server runs there, or it ended during the replay.
            ControlError: The replay was refused or had to stop; the reason contains the offset.
        """
        arguments = {
            "vhost": vhost,
            "queue": queue,
            "start": start,
            "until": until,
            "to": to,
            "filters": list(filters),
            "include": "all" if includes_all else "settled",
            "dry_run": is_dry_run,
        }
        listen = _ignore if on_progress is None else on_progress
        done = follow(self._storage_path, "queues.replay", arguments, listen)
        assert isinstance(done, dict), "an object, by docs/control.md"
        return done


def _ignore(_progress: dict[str, Any]) -> None:
    """Ignore the progress of a replay."""
