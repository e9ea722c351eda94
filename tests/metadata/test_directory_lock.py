"""The claim on a data directory."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from metadata.data_format import FORMAT_VERSION, DataFormat, read_format
from metadata.directory_lock import DirectoryLock
from metadata.errors import StorageFormatError, StorageLockedError, StorageUnavailableError
from metadata.lock_file import hold_file
from metadata.reading_lock import is_live, is_served, reading_lock
from offsets.consuming.claims import Claim

HOLD = """
import sys
from pathlib import Path
from metadata.directory_lock import DirectoryLock
lock = DirectoryLock.acquire(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def start_holder(storage_path: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLD, str(storage_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_acquire_creates_the_directory_with_lock_and_format(tmp_path: Path) -> None:
    storage_path = tmp_path / "a" / "data"
    with DirectoryLock.acquire(storage_path) as lock:
        assert lock.storage_path == storage_path
        assert (storage_path / "LOCK").read_text() == f"{os.getpid()}\n"
        assert (storage_path / "FORMAT").read_text() == f"{FORMAT_VERSION}\n"


def test_a_second_claim_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path):
        with pytest.raises(StorageLockedError, match=f"process {os.getpid()}") as refused:
            DirectoryLock.acquire(tmp_path)
        assert refused.value.pid == os.getpid()
        assert refused.value.path == tmp_path / "LOCK"


def test_a_lock_file_without_a_pid_is_still_a_lock(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path):
        (tmp_path / "LOCK").write_bytes(b"")
        with pytest.raises(StorageLockedError, match="another process") as refused:
            DirectoryLock.acquire(tmp_path)
        assert refused.value.pid is None


def test_a_released_directory_can_be_claimed_again(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path)
    lock.release()
    lock.release()
    assert (tmp_path / "LOCK").read_bytes() == b""
    DirectoryLock.acquire(tmp_path).release()


def test_another_process_is_named_and_its_death_frees_the_directory(tmp_path: Path) -> None:
    with start_holder(tmp_path) as holder:
        with pytest.raises(StorageLockedError) as refused:
            DirectoryLock.acquire(tmp_path)
        assert refused.value.pid == holder.pid
        holder.kill()
    DirectoryLock.acquire(tmp_path).release()


@pytest.mark.parametrize("content", [b"", b"0\n", b"3\n", b"\xff\xfe", b"0-unstable-not\n"])
def test_another_format_is_refused_and_the_lock_given_up(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "FORMAT").write_bytes(content)
    with pytest.raises(StorageFormatError) as refused:
        DirectoryLock.acquire(tmp_path)
    assert refused.value.supported == FORMAT_VERSION
    assert refused.value.path == tmp_path / "FORMAT"
    (tmp_path / "FORMAT").write_text(FORMAT_VERSION)
    DirectoryLock.acquire(tmp_path).release()


@pytest.mark.parametrize("earlier", ["0-unstable", "1"])
def test_a_directory_of_an_earlier_version_is_upgraded_by_whoever_claims_it(
    tmp_path: Path, earlier: str
) -> None:
    (tmp_path / "FORMAT").write_text(f"{earlier}\n")
    (tmp_path / "logs").mkdir()
    assert read_format(tmp_path) is DataFormat.EARLIER
    with DirectoryLock.acquire(tmp_path) as lock:
        assert lock.is_upgrade
        assert (tmp_path / "FORMAT").read_text() == "2-upgrading\n"
    # As after a crash: the upgrade goes on until it is finished.
    with DirectoryLock.acquire(tmp_path) as lock:
        assert lock.is_upgrade
        lock.finish_upgrade()
        assert not lock.is_upgrade
    with DirectoryLock.acquire(tmp_path) as lock:
        assert not lock.is_upgrade
        assert (tmp_path / "FORMAT").read_text() == "2\n"
    assert read_format(tmp_path) is DataFormat.CURRENT


def test_a_flipped_bit_of_the_format_never_makes_it_an_earlier_one(tmp_path: Path) -> None:
    """Documents without a checksum would be valid then."""
    path = tmp_path / "FORMAT"
    content = f"{FORMAT_VERSION}\n".encode()
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with suppress(StorageFormatError):
            assert read_format(tmp_path) is DataFormat.CURRENT


@pytest.mark.parametrize("name", ["metadata", "logs", "offsets", "transactions"])
def test_data_without_a_format_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(StorageFormatError, match="missing") as refused:
        DirectoryLock.acquire(tmp_path)
    assert refused.value.found is None


def test_a_crash_before_the_format_file_was_renamed_is_made_good(tmp_path: Path) -> None:
    (tmp_path / "LOCK").write_text("1\n")
    (tmp_path / "FORMAT.tmp").write_text("0-uns")
    with DirectoryLock.acquire(tmp_path):
        assert (tmp_path / "FORMAT").read_text() == f"{FORMAT_VERSION}\n"


def test_a_storage_path_that_is_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageUnavailableError) as refused:
        DirectoryLock.acquire(tmp_path / "file")
    assert isinstance(refused.value.cause, FileExistsError)


def test_an_unusable_lock_or_format_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "lock" / "LOCK").mkdir(parents=True)
    (tmp_path / "format" / "FORMAT").mkdir(parents=True)
    for name in ("lock", "format"):
        with pytest.raises(StorageUnavailableError, match="directory"):
            DirectoryLock.acquire(tmp_path / name)


def test_a_disk_that_refuses_the_pid_is_unavailable_unless_it_is_only_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, content: bytes, position: int) -> int:
        raise OSError(number, "refused")

    DirectoryLock.acquire(tmp_path).release()
    monkeypatch.setattr(os, "pwrite", refuse)
    number = errno.EIO
    with pytest.raises(StorageUnavailableError, match="refused"):
        DirectoryLock.acquire(tmp_path)
    number = errno.ENOSPC
    DirectoryLock.acquire(tmp_path).release()
    monkeypatch.undo()
    DirectoryLock.acquire(tmp_path).release()


def look(storage_path: Path) -> None:
    with reading_lock(storage_path):
        pass


@pytest.mark.parametrize("claim", [DirectoryLock.acquire, Claim.as_writer, Claim.as_member, look])
def test_a_deleted_lock_file_lets_nobody_in(
    tmp_path: Path, claim: Callable[[Path], object]
) -> None:
    with start_holder(tmp_path) as holder:
        (tmp_path / "LOCK").unlink()
        with pytest.raises(StorageLockedError):
            claim(tmp_path)
        assert is_served(tmp_path)
        assert is_live(tmp_path)
        holder.kill()
    assert not is_live(tmp_path)
    DirectoryLock.acquire(tmp_path).release()


def test_deleted_lock_files_of_a_program_that_embeds_logs_let_nobody_in(tmp_path: Path) -> None:
    writer = Claim.as_writer(tmp_path)
    for name in ("LOCK", "WRITER"):
        (tmp_path / name).unlink()
    for claim in (DirectoryLock.acquire, Claim.as_writer, look):
        with pytest.raises(StorageLockedError):
            claim(tmp_path)
    assert is_live(tmp_path)
    assert not is_served(tmp_path)
    # Who reads and commits is let in beside a writer, as ever.
    Claim.as_member(tmp_path).release()
    writer.release()
    DirectoryLock.acquire(tmp_path).release()


def test_a_deleted_lock_file_of_a_round_lets_no_other_round_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsets.consuming.claims._ROUND_WAIT_SECONDS", 0)
    offsets = tmp_path / "offsets"
    with Claim.as_round_writer(offsets):
        (offsets / "LOCK").unlink()
        with pytest.raises(StorageLockedError):
            Claim.as_round_writer(offsets)
    Claim.as_round_writer(offsets).release()


def test_a_deleted_lock_file_is_made_again(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path) as lock:
        assert not lock.renew()
        (tmp_path / "LOCK").unlink()
        assert lock.renew()
        assert not lock.renew()
        assert (tmp_path / "LOCK").read_text() == f"{os.getpid()}\n"
        # What knows of files only finds it locked.
        with pytest.raises(StorageLockedError):
            hold_file(tmp_path / "LOCK")
        # Put into its place by an editor, or by a restored back-up.
        (tmp_path / "other").touch()
        (tmp_path / "other").rename(tmp_path / "LOCK")
        assert lock.renew()
        with pytest.raises(StorageLockedError):
            hold_file(tmp_path / "LOCK")
    assert (tmp_path / "LOCK").read_bytes() == b""
    hold_file(tmp_path / "LOCK").release()


def test_a_server_that_locks_files_only_is_found_out(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path) as lock:
        (tmp_path / "LOCK").unlink()
        other = hold_file(tmp_path / "LOCK")
        with pytest.raises(StorageLockedError):
            lock.renew()
        other.release()
        assert lock.renew()


def test_a_directory_that_was_moved_away_is_found_out(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path / "data") as lock:
        (tmp_path / "data").rename(tmp_path / "elsewhere")
        for _ in range(2):
            with pytest.raises(StorageUnavailableError, match="moved or replaced"):
                lock.renew()
            # Nothing is made in what stands there now.
            (tmp_path / "data").mkdir(exist_ok=True)
        assert list((tmp_path / "data").iterdir()) == []


def refuse_directories(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the file system lock files only; for a directory it has an error."""
    flock = fcntl.flock

    def refuse(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.parametrize("number", [errno.EBADF, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_that_locks_no_directories_locks_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse_directories(monkeypatch, number)
    with DirectoryLock.acquire(tmp_path), pytest.raises(StorageLockedError):
        DirectoryLock.acquire(tmp_path)
    look(tmp_path)
    with DirectoryLock.acquire(tmp_path), pytest.raises(StorageLockedError):
        look(tmp_path)


def test_a_directory_that_the_disk_does_not_lock_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        refuse_directories(patched, errno.EIO)
        with pytest.raises(StorageUnavailableError, match="Input/output error"):
            DirectoryLock.acquire(tmp_path)
    DirectoryLock.acquire(tmp_path).release()
