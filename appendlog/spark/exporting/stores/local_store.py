"""Stores an output in a directory; every step is durable when it returns.

A file is written under a temporary name and synced. Then it is linked (`create`, which fails if the
name is taken) or renamed (`open_new`) to its name, and the directory is synced. So no name ever has
half a file, not even after a power cut.
"""

import errno
import fcntl
import os
import resource
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from appendlog.files.filesystem import FileSystem
from appendlog.spark.exporting.stores.rename_if_absent import rename_if_absent
from appendlog.spark.exporting.stores.store import COPY_BYTES, OutputStore, StoredFile

TEMPORARY_PREFIX: Final = "_tmp-"
"""Prefix of unfinished files; Spark and Arrow ignore files whose names begin with `_`."""

_TRIES: Final = 16
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors of file systems without hard links: exFAT, many network and FUSE file systems."""
_LOCK_FLAGS: Final = os.O_RDWR | os.O_CREAT
_FILE_MODE: Final = 0o666
_FOLDER_MODE: Final = 0o777
"""Mode of new folders: the umask decides who may read an output, as for other programs."""

_LOCKS_MAX: Final = 1 << 16
_locks_held = 0

_T = TypeVar("_T")


class OutputFiles(FileSystem):
    """Operations on files, with two that only outputs need."""

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, if no file has it.

        Raises:
            FileExistsError: `target` is taken.
        """
        target.hardlink_to(source)

    def rename_if_absent(self, source: Path, target: Path) -> None:
        """Rename a file, if no file has the name; for file systems without `link`.

        Raises:
            FileExistsError: `target` is taken.
        """
        rename_if_absent(source, target)


class LocalStore(OutputStore):
    """Output in a directory; see `OutputStore`.

    Args:
        root: Absolute path of the directory; created with the first file.
        files: Operations on files.
    """

    def __init__(self, root: Path, files: OutputFiles | None = None) -> None:
        self.root: Final = root
        self.url = str(root)
        self._files: Final = files or OutputFiles()

    def read(self, path: str) -> bytes:
        """See `OutputStore.read`."""
        return self._path(path).read_bytes()

    def create(self, path: str, data: bytes) -> None:
        """See `OutputStore.create`."""
        target = self._path(path)
        temporary = self._write_beside(target, data)
        try:
            self._give_name(temporary, target)
        finally:
            with suppress(FileNotFoundError):
                self._files.unlink(temporary)
        self._sync(target.parent)

    def list(self, folder: str) -> list[StoredFile]:
        """See `OutputStore.list`."""
        found: list[StoredFile] = []
        seen: set[tuple[int, int]] = set()
        pending = [self._path(folder) if folder else self.root]
        while pending:
            directory = pending.pop()
            # Files and folders that go away during the listing are left out.
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
                if _is_listed(directory, seen):
                    continue
                for entry in entries:
                    if entry.is_dir():
                        pending.append(Path(entry.path))
                        continue
                    with suppress(FileNotFoundError):
                        path = Path(entry.path).relative_to(self.root).as_posix()
                        found.append(StoredFile(path, entry.stat().st_size))
        return sorted(found)

    def move(self, source: str, target: str) -> None:
        """See `OutputStore.move`."""
        old, new = self._path(source), self._path(target)
        if old.exists():
            self._with_parent(new, lambda: self._rename(old, new))
        elif not new.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(old))
        self._sync(new.parent)
        self._remove_empty(old.parent)

    def delete(self, path: str) -> None:
        """See `OutputStore.delete`."""
        target = self._path(path)
        with suppress(FileNotFoundError):
            self._files.unlink(target)
        self._remove_empty(target.parent)

    @contextmanager
    def open_new(self, path: str) -> Iterator[BinaryIO]:
        """See `OutputStore.open_new`."""
        target = self._path(path)
        temporary = _temporary(target)
        descriptor = self._open_new(temporary)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                self._files.fsync(file.fileno())
            self._files.rename(temporary, target)
        except BaseException:
            with suppress(OSError):
                self._files.unlink(temporary)
            raise
        self._files.sync_directory(target.parent)

    def open_read(self, path: str) -> BinaryIO:
        """See `OutputStore.open_read`."""
        return self._path(path).open("rb")

    @contextmanager
    def locked(self, path: str) -> Iterator[bool]:
        """See `OutputStore.locked`: an advisory lock, which dies with its process.

        Each lock needs a descriptor. If there are very many at once, the later ones are not taken.
        """
        global _locks_held
        if _locks_held >= _locks_max():
            yield False
            return
        lock = self._path(path)
        descriptor = self._with_parent(
            lock, lambda: self._files.open(lock, _LOCK_FLAGS, _FILE_MODE)
        )
        _locks_held += 1
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
        finally:
            _locks_held -= 1
            self._files.close(descriptor)

    def _path(self, path: str) -> Path:
        parts = path.split("/")
        assert not {"", ".", ".."} & set(parts), path
        return self.root.joinpath(*parts)

    def _write_beside(self, target: Path, data: bytes) -> Path:
        temporary = _temporary(target)
        descriptor = self._open_new(temporary)
        try:
            self._files.write_all(descriptor, [data], 0, sync=False)
            self._files.fsync(descriptor)
        except BaseException:
            with suppress(OSError):
                self._files.unlink(temporary)
            raise
        finally:
            self._files.close(descriptor)
        return temporary

    def _open_new(self, path: Path) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        return self._with_parent(path, lambda: self._files.open(path, flags, _FILE_MODE))

    def _give_name(self, temporary: Path, target: Path) -> None:
        try:
            self._files.link(temporary, target)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._files.rename_if_absent(temporary, target)

    def _rename(self, source: Path, target: Path) -> None:
        try:
            self._files.rename(source, target)
        except FileNotFoundError:
            # Another process that completes the same commit was faster.
            if not target.exists():
                raise
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy(source, target)

    def _copy(self, source: Path, target: Path) -> None:
        """Move a file to another file system, to which a folder of the output is a link."""
        try:
            with (
                source.open("rb") as data,
                self.open_new(target.relative_to(self.root).as_posix()) as copy,
            ):
                shutil.copyfileobj(data, copy, COPY_BYTES)
        except FileNotFoundError:
            if not target.exists():
                raise
            return
        with suppress(FileNotFoundError):
            self._files.unlink(source)

    def _with_parent(self, path: Path, do: Callable[[], _T]) -> _T:
        """Run an action in the directory of a path, which other processes may remove."""
        for _ in range(_TRIES):
            self._make(path.parent)
            with suppress(FileNotFoundError):
                return do()
        return do()

    def _make(self, directory: Path) -> None:
        """Make a directory and its parents; each name is durable before the next is made."""
        missing: list[Path] = []
        while not directory.is_dir():
            missing.append(directory)
            directory = directory.parent
        for each in reversed(missing):
            # FileNotFoundError: another process has removed the parent; the caller tries again.
            with suppress(FileExistsError, FileNotFoundError):
                self._files.mkdir(each, _FOLDER_MODE)
                self._files.sync_directory(each.parent)

    def _sync(self, directory: Path) -> None:
        """Make a name durable, and the names of its directories up to the root.

        A directory that existed may not be durable: another process may just have made it.
        """
        self._files.sync_directory(directory)
        while directory != self.root:
            directory = directory.parent
            self._files.sync_directory(directory)

    def _remove_empty(self, directory: Path) -> None:
        while directory != self.root:
            try:
                self._files.rmdir(directory)
            except OSError:
                return
            directory = directory.parent


def _is_listed(directory: Path, seen: set[tuple[int, int]]) -> bool:
    """Return whether a directory was listed already: a link can lead to a parent."""
    found = directory.stat()
    place = (found.st_dev, found.st_ino)
    if place in seen:
        return True
    seen.add(place)
    return False


def _locks_max() -> int:
    """Return the most locks that may be held: tasks and Spark need descriptors too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _LOCKS_MAX if soft == resource.RLIM_INFINITY else min(soft // 4, _LOCKS_MAX)


def _temporary(target: Path) -> Path:
    return target.with_name(f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
