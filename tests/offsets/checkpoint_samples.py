"""Queue states to write to checkpoints, and the short way to write and read them."""

from pathlib import Path
from uuid import UUID

from appendlog.files.filesystem import FileSystem
from offsets.checkpoint import CheckpointStore
from offsets.queue_checkpoint import QueueCheckpoint

States = dict[UUID, QueueCheckpoint]
QUEUES = [UUID(int=number << 64) for number in range(1, 6)]


def state(queue: int, floor: int) -> QueueCheckpoint:
    ranges = [(floor + 2, floor + 5), (floor + 1000 * queue + 9, floor + 1000 * queue + 10)]
    return QueueCheckpoint(QUEUES[queue], floor, ranges, floor + 6000, [(floor, floor + 3, queue)])


def open_store(
    directory: Path, filesystem: FileSystem | None = None, compaction_bytes_min: int = 1 << 20
) -> tuple[CheckpointStore, States, bool]:
    return CheckpointStore.open(directory, filesystem or FileSystem(), compaction_bytes_min)


def read(directory: Path) -> States:
    store, states, _ = open_store(directory)
    store.close()
    return states


def write_rounds(directory: Path, *rounds: list[QueueCheckpoint], clean: bool = False) -> Path:
    """Write rounds to one generation, and return its file."""
    store, _, _ = open_store(directory)
    for number, states in enumerate(rounds, 1):
        store.write_round(states, clean=clean and number == len(rounds))
    store.close()
    return max(directory.glob("checkpoint-*.log"))
