"""Checkpoints of a data directory that several processes write, one at a time.

Each process writes whole states of the groups that it has claimed (`claims`), and adds them to
those of the others. If the newest file is its own, it appends to that. Otherwise it reads the files
and begins the next generation, like every start of a server.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from appendlog.files.filesystem import FileSystem
from offsets.checkpoint import CheckpointStore
from offsets.checkpoint_reading import checkpoint_generations, read_checkpoint
from offsets.consuming.claims import Claim
from offsets.group_checkpoint import GroupCheckpoint, GroupState
from offsets.known_ends import known_ends
from offsets.queue_checkpoint import decode_checkpoint


class SharedCheckpoints:
    """Reader and writer of the checkpoints of groups. Used by one thread at a time.

    Args:
        root: Data directory.
        filesystem: File operations; those of the operating system by default.
    """

    def __init__(self, root: Path, filesystem: FileSystem | None = None) -> None:
        self._directory: Final = root / "offsets"
        self._filesystem: Final = filesystem or FileSystem()
        self._store: CheckpointStore | None = None
        self._claim = Claim()

    def load(self) -> dict[tuple[UUID, str], GroupCheckpoint]:
        """Return the checkpoint of every group, by incarnation of the log and name of the group.

        Raises:
            CheckpointFailedError: The directory cannot be listed.
            UnsupportedCheckpointError: A file is of another version.
        """
        return read_checkpoint(self._directory, self._filesystem).group_checkpoints()

    def known_ends(self) -> dict[UUID, int]:
        """Return, for each log, the offset below which it was on the disk, exclusive.

        Includes the states that a server has written here.

        Raises:
            CheckpointFailedError: The directory cannot be listed.
            UnsupportedCheckpointError: A file is of another version.
        """
        found = read_checkpoint(self._directory, self._filesystem)
        queues = map(decode_checkpoint, found.entries.values())
        return known_ends([*queues, *found.group_checkpoints().values()])

    def write(self, groups: Sequence[GroupState], removed: Sequence[tuple[UUID, str]] = ()) -> None:
        """Write states of groups to the disk; return when they are there.

        Args:
            groups: Whole states of groups that this process has claimed.
            removed: Groups to remove, by incarnation and name, none of them in `groups`.

        Raises:
            CheckpointFailedError: The write failed; the previous states stay valid.
            UnsupportedCheckpointError: A file is of another version.
            StorageLockedError: Another process blocks the checkpoints: its round does not end.
            StorageUnavailableError: The directory or its lock file cannot be made.
        """
        # Still held if an exception of a signal handler interrupted its claim or release.
        self._claim.release()
        self._claim = Claim()
        try:
            self._claim.wait_for_round(self._directory)
            store = self._newest()
            # An interrupted round may be on the disk or not: later rounds must not be appended
            # to it, so begin the next generation.
            self._store = None
            try:
                store.write_round((), groups=groups, removed_groups=removed)
            except BaseException:
                store.close()
                raise
            self._store = store
        finally:
            self._claim.release()

    def remove_logs(self, incarnations: Collection[UUID]) -> None:
        """Remove the positions of all groups in logs that are gone.

        Writes nothing where no group has a place in one of them.

        Raises:
            CheckpointFailedError: As `write`, and so on.
        """
        gone = [key for key in self.load() if key[0] in incarnations]
        if gone:
            self.write((), removed=gone)

    def close(self) -> None:
        """Close the file; writes nothing."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _newest(self) -> CheckpointStore:
        generations = checkpoint_generations(self._directory, self._filesystem)
        store = self._store
        if store is not None and generations and generations[-1] == store.generation:
            return store
        self.close()
        self._store, _, _ = CheckpointStore.open(self._directory, self._filesystem)
        return self._store
