"""Which states a power cut in an operation may leave, and how many of them a run checks.

`FAULT_OUTCOMES` is the number of outcomes that are checked for each power cut. `FAULT_STRIDE` says
which operations fail: every one with 1; with 16 each 16th of each kind, and one at least. Power
cuts of a whole scenario are in each ninth at least. CI checks a part, always the same.
"""

import os
import random
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.faults.disk import Disk, Survivors, restore
from tests.faults.faulty_filesystem import Change
from tests.sampled import some_of_each_kind

OUTCOMES = int(os.environ.get("FAULT_OUTCOMES", "1"))
CI_STRIDE = 60
STRIDE = int(os.environ.get("FAULT_STRIDE", str(CI_STRIDE)))
CUT_STRIDE = min(STRIDE, 9)
WAYS = 4
"""To lose data: they take turns, operation by operation."""

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 32 << 20
"""For what several processes keep there at a time; a directory has one or two million bytes."""


def crashes(
    changes: list[Change],
    seed: int,
    outcomes: int = OUTCOMES,
    numbers: Collection[int] | None = None,
) -> Iterator[tuple[int, str, Survivors]]:
    """Yield each operation with what a crash in it may leave: number, which outcome, files.

    Args:
        changes: Of the disk.
        seed: Of what is left by chance.
        outcomes: How many for each operation.
        numbers: The operations; None is all.
    """
    disk = Disk()
    waiting = iter(changes)
    change = next(waiting, None)
    for number in range(changes[-1].operation + 1):
        syncs: list[Change] = []
        while change is not None and change.operation <= number:
            # In the middle of an operation: it may be done, and nothing of it is sure.
            (syncs.append if change.is_sync else lambda each: each.apply(disk))(change)
            change = next(waiting, None)
        for outcome in range(outcomes if numbers is None or number in numbers else 0):
            # Of every four operations one loses all, one keeps all, and two are in between.
            way = (number + outcome) % WAYS
            if way == 0 and outcome < 4:
                yield number, "nothing unsynced", disk.survivors(None)
            elif way == 1 and outcome < 4:
                yield number, "everything", disk.written()
            else:
                chance = f"{seed} {number} {outcome}"
                yield number, chance, disk.survivors(random.Random(chance))
        for sync in syncs:
            sync.apply(disk)


def cut_operations(
    operations: Sequence[str], turn: int, *, begin: int = 0, stride: int = CUT_STRIDE
) -> Collection[int]:
    """Return the operations in which a run cuts the power: each way meets each kind of them.

    Args:
        operations: Names of all.
        turn: Number of the case of a test: each takes others.
        begin: First operation that may be chosen.
        stride: Of each kind and way, every how many.
    """
    kinds = [(name, number % WAYS) for number, name in enumerate(operations)]
    return frozenset(begin + each for each in some_of_each_kind(kinds[begin:], turn, stride))


@contextmanager
def own_root(path: Path) -> Iterator[Path]:
    """Make a directory for one of many tries; it is kept as `path` if the try fails.

    It lies in memory where that has room: the disk that fails is simulated. On a real one behind
    it, thousands of files that are gone again at once slow down whoever makes files next: ext4
    looks for an inode that was not deleted a moment ago.
    """
    if _has_room(_MEMORY):
        root = Path(tempfile.mkdtemp(prefix="amqp-server-faults-", dir=_MEMORY))
    else:
        root = path
        root.mkdir()
    try:
        yield root
    except BaseException as error:
        if root != path:
            shutil.move(root, path)
        error.add_note(f"left in {path}")
        raise
    shutil.rmtree(root)


def _has_room(directory: Path) -> bool:
    if not os.access(directory, os.W_OK):
        return False
    space = os.statvfs(directory)
    return space.f_bavail * space.f_frsize >= _ROOM_BYTES


def leave(survivors: Survivors, played: Path, root: Path) -> None:
    """Write what a power cut leaves of the directory `played` below another root."""
    shutil.copytree(played / "data", root / "data", ignore=_all_but_format)
    restore({root / path.relative_to(played): content for path, content in survivors.items()})


def _all_but_format(_: str, names: list[str]) -> list[str]:
    # It is on the disk before the file system is asked for anything.
    return [name for name in names if name != "FORMAT"]
