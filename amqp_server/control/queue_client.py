"""Looking into the queues of a running server from Python, through its control socket.

    client = QueueClient("/var/lib/amqp-server")
    for message in client.browse("orders", start="-100"):
        print(message["offset"], message["state"], message.get("body"))
    done = client.replay("orders", start="1h", to="orders-again")
    print(done["replayed"], "messages")

Blocking; an object may be used by many threads, for every request has a connection of its own.
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

        They keep their properties, exchange and routing key, and get the headers
        `x-replayed-from`, `x-replayed-offset` and `x-replayed-at`. It stops when this process
        ends or `on_progress` raises; all below the last `next` that was told is done then, and
        what follows may be.

        Args:
            queue: Where they were; a stream only with another queue in `to`.
            start: The first one, as for `browse`; an offset must be one that is kept.
            until: Exclusive, written as `start`; empty for the end that there is now.
            vhost: Virtual host of both queues.
            to: The queue that gets them, at its end; empty for the same one.
            filters: Only messages that have all of these headers: "header=value".
            includes_all: Whether unsettled messages are copied as well.
            is_dry_run: Whether they are only counted.
            on_progress: Called a few times a second with an object like the result.

        Returns:
            `replayed` and `replayed_bytes`, `passed` (looked at and not wanted), `first_offset`
            and `last_offset` of what was replayed (None: nothing), `start` and `until`, `next`
            (all below it is done), `seconds`.

        Raises:
            UnreachableError: No server runs there, or it ended meanwhile.
            ControlError: It was refused, or had to stop; its reason tells where.
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
    """Take no notice of how far it is."""
