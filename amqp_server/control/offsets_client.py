"""Shows and moves consumer groups from Python, as `amqp-server offsets` does.

    from amqp_server.control.offsets_client import OffsetsClient

    offsets = OffsetsClient("/var/lib/amqp-server")
    for place in offsets.list_groups(queue="events"):
        print(place.group, place.committed, place.lag)
    offsets.seek("billing", "1h", queue="events")

Each call sends a request to the server that runs on the data directory and blocks until the reply.
A change is then on the disk. Server and caller must run as the same user.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from amqp_server.control.client import ControlError, UnreachableError, ask


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """State of one group in one log; if `group` is None, an ordinary queue's own settlement.

    Attributes:
        queue: Name of the queue; None if it is not valid UTF-8.
        vhost: Name of its virtual host; None if it is not valid UTF-8.
        shard: Shard number; None if the request named the queue itself.
        group: Name of the group; None for the settlement of the queue itself.
        exists: Whether the queue knows the group; if not, most other attributes are None.
        committed: Committed offset: all below it is settled, the offset itself is not; None: no
            commit.
        committed_before: Committed offset before the requested change.
        start: Offset from which the group continues after a restart; None: no position yet.
        position: Offset that is delivered next.
        log_start_offset: First offset of the log.
        log_end_offset: End of what consumers can read of the log, exclusive.
        lag: Log end offset minus committed offset, in messages.
        lag_bytes: Approximate size of these messages on the disk.
        lag_seconds: Age of the first unsettled message; 0.0 at the end of the log; None if it is
            unknown or was not requested: `list_groups` does not read the logs.
        ready: Messages that wait for delivery.
        unacked: Messages delivered to consumers and not settled.
        acked_ahead: Messages acknowledged above the first unsettled one.
        oldest_unacked_seconds: Seconds since the oldest unacked message was delivered; None if
            there is none, or for a queue's own settlement.
        delivered: Deliveries since the server started, repeated ones included.
        acked: Messages acknowledged since the server started.
        redelivered: Repeated deliveries: of a group in its whole life, of a queue since the server
            started.
        rejected: Messages that members rejected since the server started.
        dropped_total: Messages that retention removed before they were settled.
        dropped_since_last_poll: Those among them that no delivery has reported yet.
        updated_at_ns: Time of the last start, ack, commit or seek; ns since the epoch, UTC; None:
            never.
        members: Number of its consumers.
        checkpoint_age_seconds: Seconds since the last checkpoint round began; None if it was not
            requested, or if the queue does not survive a restart.
    """

    group: str | None
    exists: bool
    log_start_offset: int
    log_end_offset: int
    queue: str | None = None
    vhost: str | None = None
    shard: int | None = None
    committed: int | None = None
    committed_before: int | None = None
    start: int | None = None
    position: int | None = None
    lag: int | None = None
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    ready: int | None = None
    unacked: int | None = None
    acked_ahead: int | None = None
    oldest_unacked_seconds: float | None = None
    delivered: int | None = None
    acked: int | None = None
    redelivered: int | None = None
    rejected: int | None = None
    dropped_total: int | None = None
    dropped_since_last_poll: int | None = None
    updated_at_ns: int | None = None
    members: int | None = None
    checkpoint_age_seconds: float | None = None


class OffsetsClient:
    """Consumer groups of the streams of a running server.

    Every method names one stream with `queue`, or with `shards` an exchange of type
    `x-consistent-hash`. For an exchange it works on all its queues and returns them by shard
    number. `list_groups` may name neither.
    Every method raises:

    - `UnreachableError`: no server runs on the data directory, or it is another user's;
    - `ControlError`: the server refused the request and changed nothing; `kind` is the kind of
      error, `reason` is one line for people.

    Attributes:
        storage_path: Data directory of the server.
    """

    def __init__(self, storage_path: str | Path) -> None:
        self.storage_path = Path(storage_path)

    def list_groups(
        self, *, queue: str = "", shards: str = "", vhost: str = "/"
    ) -> list[GroupPlace]:
        """Return all groups by name and shard; those of all streams if neither is named."""
        return self._ask("list", vhost=vhost, queue=queue, shards=shards)

    def show(
        self, group: str | None = None, *, queue: str = "", shards: str = "", vhost: str = "/"
    ) -> list[GroupPlace]:
        """Return one group of each shard; without `group` the settlement of ordinary queues."""
        return self._ask("show", group=group or "", vhost=vhost, queue=queue, shards=shards)

    def commit(
        self,
        group: str,
        to: int | str,
        *,
        queue: str = "",
        shards: str = "",
        vhost: str = "/",
        force: bool = False,
    ) -> list[GroupPlace]:
        """Commit a position: all below it is settled for the group. Creates a missing group.

        Args:
            group: Name of the group.
            to: Position: `earliest`, `latest`, an offset, `-N`, a time such as
                `2026-11-21T10:00:00Z`, or an age such as `1h`.
            queue: Name of a stream; empty if `shards` is given.
            shards: Name of an exchange; empty if `queue` is given.
            vhost: Virtual host of the queue or exchange.
            force: Whether the position may be below the committed offset, as with `seek`.
        """
        place = {"vhost": vhost, "queue": queue, "shards": shards}
        return self._ask("commit", group=group, to=str(to), force=force, **place)

    def seek(
        self,
        group: str,
        to: int | str,
        *,
        queue: str = "",
        shards: str = "",
        vhost: str = "/",
        force: bool = False,
    ) -> list[GroupPlace]:
        """Move a group to a position, forward or back. Creates a missing group.

        Args:
            group: Name of the group.
            to: Position, as for `commit`.
            queue: Name of a stream; empty if `shards` is given.
            shards: Name of an exchange; empty if `queue` is given.
            vhost: Virtual host of the queue or exchange.
            force: Whether to move a group that has members. They continue from the position; their
                answers to earlier deliveries have no effect.
        """
        place = {"vhost": vhost, "queue": queue, "shards": shards}
        return self._ask("seek", group=group, to=str(to), force=force, **place)

    def delete(
        self,
        group: str,
        *,
        queue: str = "",
        shards: str = "",
        vhost: str = "/",
        force: bool = False,
    ) -> list[GroupPlace]:
        """Delete a group for good and return its last state; `force` cancels its members."""
        place = {"vhost": vhost, "queue": queue, "shards": shards}
        return self._ask("delete", group=group, force=force, **place)

    def _ask(self, command: str, **arguments: object) -> list[GroupPlace]:
        rows = ask(self.storage_path, f"offsets.{command}", **arguments)
        return [_place(row) for row in rows]


_FIELDS = {field.name for field in fields(GroupPlace)}


def _place(row: dict[str, Any]) -> GroupPlace:
    # A newer server may send more fields.
    return GroupPlace(**{name: value for name, value in row.items() if name in _FIELDS})


__all__ = ["ControlError", "GroupPlace", "OffsetsClient", "UnreachableError"]
