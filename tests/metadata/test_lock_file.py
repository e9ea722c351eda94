"""A lock is that of one holder, also while lock files are removed."""

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from appendlog.files.open_files import OPEN_FILES
from metadata.errors import StorageLockedError
from metadata.lock_file import HeldFile, hold_file


def test_a_lock_that_is_removed_is_not_held_by_who_had_opened_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the opening of a file and its locking the holder removes it, and another comes."""
    path = tmp_path / "lock"
    first = hold_file(path)
    others: list[HeldFile] = []
    real_open = OPEN_FILES.open

    def open_and_be_overtaken(file: Path, flags: int, mode: int) -> int:
        descriptor = real_open(file, flags, mode)
        monkeypatch.undo()
        first.remove()
        others.append(hold_file(path))
        return descriptor

    monkeypatch.setattr(OPEN_FILES, "open", open_and_be_overtaken)
    with pytest.raises(StorageLockedError):
        hold_file(path)
    assert path.exists()
    others[0].release()
    hold_file(path).release()


def test_threads_that_take_and_remove_a_lock_never_hold_it_together(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holders: list[int] = []
    taken = [0, 0, 0]

    def work(name: int) -> None:
        while taken[name] < 100:
            with suppress(StorageLockedError):
                lock = hold_file(path)
                holders.append(name)
                assert holders == [name]
                holders.clear()
                taken[name] += 1
                lock.remove() if taken[name] % 2 else lock.release()

    failures: list[object] = []
    before, threading.excepthook = threading.excepthook, failures.append
    try:
        threads = [threading.Thread(target=work, args=(name,)) for name in range(len(taken))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        threading.excepthook = before
    assert failures == []


def test_a_lock_ends_with_its_object(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = hold_file(path)
    with pytest.raises(StorageLockedError):
        hold_file(path)
    # As when an exception comes before anybody has it.
    del lock
    hold_file(path).release()
