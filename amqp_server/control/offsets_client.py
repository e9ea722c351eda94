"""Where consumer groups are, and moving them, from Python: what `amqp-server offsets` does.

    from amqp_server.control.offsets_client import OffsetsClient

    offsets = OffsetsClient("/var/lib/amqp-server")
    for place in offsets.list_groups(queue="events"):
        print(place.group, place.committed, place.lag)
    offsets.seek("billing", "1h", queue="events")

Each call asks the server that runs on the data directory, through its control socket, and blocks
until it is done; a change is on the disk then. The server and the caller are of one user.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from amqp_server.control.client import ControlError, UnreachableError, ask


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """Where one group is in one log; or, with `group` None, an ordinary queue's own settlement.

    Attributes:
        queue: Its name; None: it is no UTF-8.
        vhost: The same of its virtual host.
        shard: Number of the shard; None: the queue was asked for itself.
        group: Name of the group; None: what the queue itself is done with.
        exists: Whether the queue knows the group; if not, what follows is None.
        committed: All below it is done, and what it names is not; None: no commit.
        committed_before: The same before the change that was asked for.
        start: Where it would go on after a restart; None: it has no place yet.
        position: What is delivered next.
        log_start_offset: What the log begins with.
        log_end_offset: End of what may be seen of the log, exclusive.
        lag: Messages from the commit to the end.
        lag_bytes: Their room on the disk, about.
        lag_seconds: How old the first message is that is not done; 0.0: it is with the end; None:
            not known, or not asked for: `list_groups` does not read the logs.
        ready: Messages that wait to be delivered.
        unacked: Messages that consumers have.
        acked_ahead: Messages acked ahead of the first that is not.
        oldest_unacked_seconds: How long the oldest of them is with a consumer; None: there is
            none, or it is a queue's own settlement.
        delivered: Messages given to consumers since the server started, each time anew.
        acked: Messages that consumers acknowledged since the server started.
        redelivered: Messages delivered again; of a group ever, of a queue since the server started.
        rejected: Messages that members did not want, since the server started.
        dropped_total: Messages that retention took before they were done.
        dropped_since_last_poll: Those that no delivery has told of.
        updated_at_ns: Last start, ack, commit or seek; ns since the epoch, UTC; None: never.
        members: Consumers that it has.
        checkpoint_age_seconds: Since the last checkpoint round began; None: not asked for, or
            no restart survives it.
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
    """Groups of the streams of a running server.

    Every method names one stream with `queue`, or with `shards` an exchange of type
    `x-consistent-hash`, whose queues are then spoken of together, sorted by shard number; but
    `list_groups` may name neither.
    Every method raises:

    - `UnreachableError`: no server runs on the data directory, or it is another user's;
    - `ControlError`: the server did not do it, nothing was changed; `kind` says why, and
      `reason` is one line for people.

    Attributes:
        storage_path: Data directory of the server.
    """

    def __init__(self, storage_path: str | Path) -> None:
        self.storage_path = Path(storage_path)

    def list_groups(
        self, *, queue: str = "", shards: str = "", vhost: str = "/"
    ) -> list[GroupPlace]:
        """Return all groups, by name and shard; of neither: of all streams. Looks at no file."""
        return self._ask("list", vhost=vhost, queue=queue, shards=shards)

    def show(
        self, group: str | None = None, *, queue: str = "", shards: str = "", vhost: str = "/"
    ) -> list[GroupPlace]:
        """Return one group, of each shard; without `group` what ordinary queues are done with."""
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
        """Say that a group is done with all below a place. A group that there is none of begins.

        Args:
            group: Its name.
            to: `earliest`, `latest`, an offset, `-N`, a time as `2026-11-21T10:00:00Z`, or an
                age as `1h`.
            queue: A stream.
            shards: Or an exchange.
            vhost: Where it is.
            force: Go back if the place is lower than what is committed, as `seek` does.
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
        """Have a group go on from a place, back or on. A group that there is none of begins.

        Args:
            group: Its name.
            to: As for `commit`.
            queue: A stream.
            shards: Or an exchange.
            vhost: Where it is.
            force: Also if it has members, who go on from there: what they answer of earlier
                deliveries changes nothing.
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
        """Forget a group for good and return what it was; `force`: its members are cancelled."""
        place = {"vhost": vhost, "queue": queue, "shards": shards}
        return self._ask("delete", group=group, force=force, **place)

    def _ask(self, command: str, **arguments: object) -> list[GroupPlace]:
        rows = ask(self.storage_path, f"offsets.{command}", **arguments)
        return [_place(row) for row in rows]


_FIELDS = {field.name for field in fields(GroupPlace)}


def _place(row: dict[str, Any]) -> GroupPlace:
    # A newer server may tell more.
    return GroupPlace(**{name: value for name, value in row.items() if name in _FIELDS})


__all__ = ["ControlError", "GroupPlace", "OffsetsClient", "UnreachableError"]
