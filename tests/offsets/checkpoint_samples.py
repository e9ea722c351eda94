"""Queue states to write to checkpoints, and the short way to write and read them."""

from pathlib import Path
from uuid import UUID

from appendlog.files.filesystem import FileSystem
from offsets.checkpoint import CheckpointStore
from offsets.group_checkpoint import GroupCheckpoint
from offsets.queue_checkpoint import QueueCheckpoint

States = dict[UUID, QueueCheckpoint]
Groups = dict[tuple[UUID, str], GroupCheckpoint]
QUEUES = [UUID(int=number << 64) for number in range(1, 6)]


def state(queue: int, floor: int) -> QueueCheckpoint:
    ranges = [(floor + 2, floor + 5), (floor + 1000 * queue + 9, floor + 1000 * queue + 10)]
    returns = [(floor, floor + 3, queue)]
    return QueueCheckpoint(QUEUES[queue], floor, ranges, floor + 6000, returns, floor + 7000)


def group(queue: int, name: str, floor: int | None) -> GroupCheckpoint:
    """Return a group's state; without a place if `floor` is None."""
    if floor is None:
        return GroupCheckpoint(QUEUES[queue], name, updated_at_ns=5)
    return GroupCheckpoint(
        QUEUES[queue],
        name,
        floor,
        floor,
        is_committed=True,
        acked_ranges=[(floor + 2, floor + 4), (floor + 3000, floor + 3001)],
        delivered_watermark=floor + 9,
        redeliveries=[(floor, floor + 2, 1)],
        dropped_total=floor + 7,
        dropped_since_last_poll=3,
        redelivered=2,
        updated_at_ns=1_790_000_000_000_000_000 + floor,
        recovery_point=floor + 7000,
    )


def by_name(*groups: GroupCheckpoint) -> Groups:
    return {(each.incarnation, each.name): each for each in groups}


def open_store(
    directory: Path, filesystem: FileSystem | None = None, compaction_bytes_min: int = 1 << 20
) -> tuple[CheckpointStore, States, bool]:
    return CheckpointStore.open(directory, filesystem or FileSystem(), compaction_bytes_min)


def read(directory: Path) -> States:
    store, states, _ = open_store(directory)
    store.close()
    return states


def read_groups(directory: Path) -> Groups:
    store, _, _ = open_store(directory)
    store.close()
    return store.take_groups()


def write_rounds(directory: Path, *rounds: list[QueueCheckpoint], clean: bool = False) -> Path:
    """Write rounds to one generation, and return its file."""
    store, _, _ = open_store(directory)
    for number, states in enumerate(rounds, 1):
        store.write_round(states, clean=clean and number == len(rounds))
    store.close()
    return max(directory.glob("checkpoint-*.log"))
