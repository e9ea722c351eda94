"""Checkpoint files read while others write them anew, faster than the reader looks at them."""

from pathlib import Path

import pytest

from appendlog.files.filesystem import FileSystem
from offsets import CheckpointFailedError, CheckpointStore
from offsets.checkpoint_reading import read_checkpoint
from tests.offsets.checkpoint_samples import group, open_store, state


class Overtaking(FileSystem):
    """Makes newer generations of the files after each of the first listings of their directory."""

    def __init__(self, times: int) -> None:
        self._times = times

    def listdir(self, path: Path) -> list[str]:
        names = super().listdir(path)
        if self._times:
            self._times -= 1
            # The one before the newest is kept: only two make the listed ones go.
            for _ in range(2):
                store, _, _ = CheckpointStore.open(path, FileSystem())
                store.write_round([])
                store.close()
        return names


def test_a_reader_that_is_overtaken_finds_everything(tmp_path: Path) -> None:
    store, _, _ = open_store(tmp_path)
    store.write_round([state(0, 5)], groups=[group(0, "g", 1)])
    store.close()
    found = read_checkpoint(tmp_path, Overtaking(3))
    assert len(found.entries) == 1
    assert len(found.group_checkpoints()) == 1


def test_a_reader_that_is_overtaken_for_ever_says_so(tmp_path: Path) -> None:
    store, _, _ = open_store(tmp_path)
    store.write_round([state(0, 5)])
    store.close()
    with pytest.raises(CheckpointFailedError, match="removed while read"):
        read_checkpoint(tmp_path, Overtaking(1_000))
