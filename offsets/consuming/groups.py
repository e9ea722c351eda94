"""All groups of a data directory: what they are done with, and how to be rid of one."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from offsets.consuming.catalog import DEFAULT_VHOST, LogCatalog
from offsets.consuming.claims import Claim
from offsets.consuming.shared_checkpoints import SharedCheckpoints


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """Where one group is in one log, as the checkpoints tell it.

    Attributes:
        group: Its name.
        log: Name of the log.
        committed: All below it is done; None: nothing was ever acked.
        floor: Where it reads on: `committed`, or where it began.
        dropped_total: Taken away by retention before it was done with them.
        updated_at_ns: When it last moved; 0: never.
    """

    group: str
    log: str
    committed: int | None
    floor: int
    dropped_total: int
    updated_at_ns: int


def list_groups(root: Path | str, vhost: str = DEFAULT_VHOST) -> list[GroupPlace]:
    """Return the place of each group in each log, by group and log.

    Raises:
        CheckpointFailedError: The checkpoints cannot be read.
        OSError: The definitions cannot be read.
    """
    path = Path(root)
    names = {
        place.identity.incarnation: name for name, place in LogCatalog(path, vhost).find().items()
    }
    found = SharedCheckpoints(path).load()
    places = [
        GroupPlace(
            group,
            names[incarnation],
            state.committed,
            state.start,
            state.dropped_total,
            state.updated_at_ns,
        )
        for (incarnation, group), state in found.items()
        # One without a place needs nothing; a log that is gone has none.
        if incarnation in names and state.start is not None
    ]
    return sorted(places, key=lambda place: (place.group, place.log))


def remove_group(root: Path | str, group: str, vhost: str = DEFAULT_VHOST) -> int:
    """Forget a group, and so what retention keeps for it; return of how many logs.

    Raises:
        GroupLockedError: A consumer of the group runs.
        StorageLockedError: A server runs on the directory: it has groups of its own.
        CheckpointFailedError: The disk refused.
    """
    path = Path(root)
    names = LogCatalog(path, vhost).find()
    with ExitStack() as held:
        held.enter_context(Claim.as_member(path))
        checkpoints = SharedCheckpoints(path)
        held.callback(checkpoints.close)
        known = checkpoints.load()
        gone = []
        for name, place in names.items():
            incarnation = place.identity.incarnation
            if (incarnation, group) in known:
                held.enter_context(Claim.as_consumer(path, group, name, incarnation))
                gone.append((incarnation, group))
        if gone:
            checkpoints.write((), removed=gone)
    return len(gone)
