"""All groups of a data directory: their positions, the space that they hold, their removal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from appendlog import FileSystem
from appendlog.segments.segment import segment_names
from metadata.names import encode_name
from offsets.consuming.catalog import DEFAULT_VHOST, LogCatalog, LogPlace
from offsets.consuming.claims import Claim, consumer_lock_path, remove_group_locks
from offsets.consuming.known_groups import KnownGroup, KnownGroups
from offsets.consuming.shared_checkpoints import SharedCheckpoints
from offsets.group_checkpoint import GroupCheckpoint


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """State of one group in one log, from the checkpoints.

    Attributes:
        group: Name of the group.
        log: Name of the log.
        committed: Offset below which everything is acked; None if nothing was ever acked.
        floor: Offset at which the group continues: `committed`, or where it began. In a log that it
            has not seen yet, the log's first offset.
        dropped_total: Number of offsets that retention removed before the group had settled them.
        updated_at_ns: Time of its last change, ns since 1970 UTC; 0 if there was none.
        held_bytes: Size of the segments with records that it has not settled, without the last one:
            retention keeps them for the group if it protects unconsumed records.
    """

    group: str
    log: str
    committed: int | None
    floor: int
    dropped_total: int
    updated_at_ns: int
    held_bytes: int = 0


def groups_by_log(
    logs: Mapping[str, UUID],
    known: Iterable[KnownGroup],
    states: Mapping[tuple[UUID, str], GroupCheckpoint],
) -> dict[str, dict[str, GroupCheckpoint | None]]:
    """Return, for each log, the groups that read it; None for a group that has not seen it yet.

    Args:
        logs: Incarnations of the logs, by name.
        known: Groups, with the patterns of the logs that they read.
        states: Checkpoints of the groups in the logs that they have seen.
    """
    names = {incarnation: name for name, incarnation in logs.items()}
    # If the document of a group is damaged, its name is only known as that of the file.
    true_names = {encode_name(group): group for _, group in states}
    groups: dict[str, dict[str, GroupCheckpoint | None]] = {name: {} for name in logs}
    for group in known:
        group_name = true_names.get(group.name, group.name)
        for name, counting in groups.items():
            if group.reads(name):
                counting[group_name] = None
    for (incarnation, group_name), state in states.items():
        if incarnation in names and state.start is not None:
            groups[names[incarnation]][group_name] = state
    return groups


def list_groups(root: Path | str, vhost: str = DEFAULT_VHOST) -> list[GroupPlace]:
    """Return the state of each group in each log that it reads, by group and log.

    Raises:
        CheckpointFailedError: The checkpoints cannot be read.
        OSError: The definitions, or the directory of a log, cannot be read.
    """
    path = Path(root)
    logs = LogCatalog(path, vhost).find()
    groups = groups_by_log(
        {name: place.identity.incarnation for name, place in logs.items()},
        KnownGroups(path, vhost).load().values(),
        SharedCheckpoints(path).load(),
    )
    places = []
    for name, counting in groups.items():
        segments = _segments(logs[name]) if counting else []
        for group, state in counting.items():
            start = segments[0][0] if segments else 0
            floor = start if state is None or state.start is None else state.start
            places.append(
                GroupPlace(
                    group,
                    name,
                    None if state is None else state.committed,
                    floor,
                    0 if state is None else state.dropped_total,
                    0 if state is None else state.updated_at_ns,
                    sum(size for _, end, size in segments[:-1] if end > floor),
                )
            )
    return sorted(places, key=lambda place: (place.group, place.log))


def remove_group(root: Path | str, group: str, vhost: str = DEFAULT_VHOST) -> int:
    """Remove a group, so that retention keeps nothing for it; return the number of its logs.

    Raises:
        GroupLockedError: A consumer of the group is active.
        StorageLockedError: A server uses the directory: it has groups of its own.
        CheckpointFailedError: The checkpoints cannot be written.
        DocumentWriteError: The group's document cannot be removed: the group still counts in logs
            that it has not seen.
    """
    path = Path(root)
    logs = LogCatalog(path, vhost).find()
    known_groups = KnownGroups(path, vhost)
    with ExitStack() as held:
        held.enter_context(Claim.as_member(path))
        checkpoints = SharedCheckpoints(path)
        held.callback(checkpoints.close)
        states = checkpoints.load()
        known = known_groups.load().get(group)
        gone = []
        count = 0
        for name, place in logs.items():
            incarnation = place.identity.incarnation
            has_place = (incarnation, group) in states
            if has_place or consumer_lock_path(path, group, incarnation).exists():
                claim = Claim.as_consumer(path, group, name, incarnation)
                held.callback(claim.remove)
            if has_place:
                gone.append((incarnation, group))
            count += has_place or (known is not None and known.reads(name))
        if gone:
            checkpoints.write((), removed=gone)
        known_groups.remove(group)
    remove_group_locks(path, group)
    return count


def _segments(place: LogPlace) -> list[tuple[int, int, int]]:
    """Return where each segment of a log begins and ends, and its size; the last has no end."""
    filesystem = FileSystem()
    try:
        newest = {
            name.base_offset: name for name in segment_names(filesystem.listdir(place.directory))
        }
    except FileNotFoundError:
        return []
    bases = sorted(newest)
    found = []
    for base, end in zip(bases, [*bases[1:], 0], strict=False):
        try:
            size = filesystem.file_size(place.directory / newest[base].file_name)
        except FileNotFoundError:
            continue  # retention was faster
        found.append((base, end, size))
    return found
