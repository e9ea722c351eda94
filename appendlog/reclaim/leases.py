"""Leases: who reads a log in another process asks for its segments to stay meanwhile.

A lease is a small JSON file in the folder `leases` of the data directory, replaced whole each time
that it is renewed. It speaks of one queue from one offset on, and ends by itself: a reader that
was killed holds nothing for long. The server need not run for one to be taken.
"""

import json
import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID, uuid4

from appendlog.errors import LogError
from appendlog.files.filesystem import FileSystem

logger = logging.getLogger(__name__)

LEASES_FOLDER: Final = "leases"
LEASES_MAX: Final = 1000
"""No more are taken at a time."""
LEASE_BYTES_MAX: Final = 16 * 1024
LEASE_SECONDS: Final = 120.0
"""How long a lease holds after it was renewed."""
LEASE_SECONDS_MAX: Final = 3600.0
"""One that says it holds longer is not believed; one that is over, or broken, goes after this."""
_SUFFIX: Final = ".json"


class TooManyLeasesError(LogError):
    """There are `LEASES_MAX` leases already."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What one file says.

    Attributes:
        name: Of the file, without its suffix.
        vhost: Virtual host of the queue.
        queue: Its name.
        incarnation: Of the queue.
        low_offset: Segments that reach past this offset stay as they are.
        expires_ns: When it ends; nanoseconds since 1970 UTC.
    """

    name: str
    vhost: str
    queue: str
    incarnation: UUID
    low_offset: int
    expires_ns: int

    def encode(self) -> bytes:
        """Return the file's bytes."""
        fields = {
            "name": self.name,
            "vhost": self.vhost,
            "queue": self.queue,
            "incarnation": str(self.incarnation),
            "low_offset": self.low_offset,
            "expires_ns": self.expires_ns,
        }
        return json.dumps(fields).encode() + b"\n"


def decode_lease(data: bytes) -> Lease:
    """Return what a lease file says.

    Raises:
        ValueError: It is not one.
    """
    fields: Any = json.loads(data)
    try:
        lease = Lease(
            name=str(fields["name"]),
            vhost=str(fields["vhost"]),
            queue=str(fields["queue"]),
            incarnation=UUID(fields["incarnation"]),
            low_offset=fields["low_offset"],
            expires_ns=fields["expires_ns"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a lease: {error!r}") from error
    for number in (lease.low_offset, lease.expires_ns):
        if type(number) is not int or number < 0:
            raise ValueError(f"not a lease: {number!r} is no number of it")
    return lease


class HeldLease:
    """A lease that this process has taken, for one reader of one log.

    Leaving the `with` block ends it. Not thread-safe.

    Args:
        directory: The folder `leases`.
        lease: What it says; not written yet.
        filesystem: All file calls go through it.
    """

    def __init__(self, directory: Path, lease: Lease, filesystem: FileSystem) -> None:
        self.lease = lease
        self._directory = directory
        self._filesystem = filesystem

    @classmethod
    def take(
        cls,
        storage_path: Path,
        vhost: str,
        queue: str,
        incarnation: UUID,
        low_offset: int,
        filesystem: FileSystem | None = None,
    ) -> Self:
        """Take a lease for `LEASE_SECONDS`.

        Leases that are over, of readers that were killed, make room if there are too many.

        Args:
            storage_path: The data directory.
            vhost: Virtual host of the queue.
            queue: Its name.
            incarnation: Of the queue.
            low_offset: Nothing at or above it is to go.
            filesystem: The operating system's by default.

        Raises:
            TooManyLeasesError: There are too many.
            OSError: The file cannot be written.
        """
        filesystem = filesystem or FileSystem()
        directory = storage_path / LEASES_FOLDER
        if not filesystem.exists(directory):
            with suppress(FileExistsError):
                filesystem.mkdir(directory)
            filesystem.sync_directory(storage_path)
        names = filesystem.listdir(directory)
        if len(names) >= LEASES_MAX and _remove_over(directory, names, filesystem) >= LEASES_MAX:
            raise TooManyLeasesError(f"{directory}: {LEASES_MAX} leases are taken already")
        name = f"{incarnation}-{uuid4().hex}"
        held = cls(directory, Lease(name, vhost, queue, incarnation, low_offset, 0), filesystem)
        held.renew()
        return held

    def renew(self, low_offset: int | None = None) -> None:
        """Let the lease hold for `LEASE_SECONDS` from now.

        Args:
            low_offset: What is below it may go now; as it was by default.

        Raises:
            OSError: The file cannot be written; the old one holds to its end.
        """
        old = self.lease
        low_offset = old.low_offset if low_offset is None else low_offset
        expires_ns = time.time_ns() + int(LEASE_SECONDS * 1e9)
        lease = Lease(old.name, old.vhost, old.queue, old.incarnation, low_offset, expires_ns)
        path = self._directory / f"{lease.name}{_SUFFIX}"
        beside = path.with_suffix(".new")
        filesystem = self._filesystem
        descriptor = filesystem.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            filesystem.write_all(descriptor, [lease.encode()], 0, sync=False)
            filesystem.fsync(descriptor)
        finally:
            filesystem.close(descriptor)
        filesystem.rename(beside, path)
        filesystem.sync_directory(self._directory)
        self.lease = lease

    def renew_when_due(self) -> None:
        """Renew the lease when half of its time is over.

        Raises:
            OSError: The file cannot be written; the old one holds to its end.
        """
        if time.time_ns() > self.lease.expires_ns - int(LEASE_SECONDS * 1e9 / 2):
            self.renew()

    def end(self) -> None:
        """Give the lease back."""
        with suppress(OSError):
            self._filesystem.unlink(self._directory / f"{self.lease.name}{_SUFFIX}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


def _remove_over(directory: Path, names: list[str], filesystem: FileSystem) -> int:
    """Remove the leases that are over, and return how many files are left.

    Who still has one of these writes it anew when it renews it.
    """
    left = len(names)
    now_ns = time.time_ns()
    for name in names:
        path = directory / name
        with suppress(OSError, ValueError, RecursionError):
            if decode_lease(filesystem.read_file(path, LEASE_BYTES_MAX)).expires_ns <= now_ns:
                filesystem.unlink(path)
                left -= 1
    return left


class Leases:
    """The leases of a data directory, as the server looks at them. One thread at a time.

    Args:
        storage_path: The data directory.
        filesystem: All file calls go through it.
    """

    def __init__(self, storage_path: Path, filesystem: FileSystem) -> None:
        """Begin without having looked."""
        self._directory = storage_path / LEASES_FOLDER
        self._filesystem = filesystem
        # By name: when a file that is no lease was seen first.
        self._broken: dict[str, int] = {}

    def low_offsets(self, now_ns: int) -> Mapping[UUID, int]:
        """Return, by incarnation, from which offset on segments have to stay.

        Removes what has been over, or broken, for long. What cannot be read is told once.

        Args:
            now_ns: Nanoseconds since 1970 UTC.
        """
        lows: dict[UUID, int] = {}
        try:
            names = sorted(self._names())
        except OSError as error:
            logger.warning("leases not read path=%s error=%s", self._directory, error)
            return lows
        for name in self._broken.keys() - set(names):
            del self._broken[name]
        for name in names[:LEASES_MAX]:
            lease = self._read(name, now_ns)
            if lease is None:
                self._remove_if_old(name, self._broken.get(name, now_ns), now_ns)
            elif lease.expires_ns <= now_ns:
                self._remove_if_old(name, lease.expires_ns, now_ns)
            else:
                low = min(lease.low_offset, lows.get(lease.incarnation, lease.low_offset))
                lows[lease.incarnation] = low
        return lows

    def _names(self) -> list[str]:
        if not self._filesystem.exists(self._directory):
            return []
        return self._filesystem.listdir(self._directory)

    def _read(self, name: str, now_ns: int) -> Lease | None:
        """Return what a file says; None, and one warning, when it is no lease."""
        try:
            data = self._filesystem.read_file(self._directory / name, LEASE_BYTES_MAX)
            lease = _believed(name, data, now_ns)
        except FileNotFoundError:
            return None  # it has ended just now
        except (OSError, ValueError, RecursionError) as error:
            if name not in self._broken:
                self._broken[name] = now_ns
                # A file that is being written has such a name for a moment.
                if name.endswith(_SUFFIX):
                    logger.warning("lease ignored path=%s error=%s", self._directory / name, error)
            return None
        self._broken.pop(name, None)
        return lease

    def _remove_if_old(self, name: str, since_ns: int, now_ns: int) -> None:
        if now_ns - since_ns > int(LEASE_SECONDS_MAX * 1e9):
            self._broken.pop(name, None)
            with suppress(OSError):
                self._filesystem.unlink(self._directory / name)


def _believed(name: str, data: bytes, now_ns: int) -> Lease:
    """Return what a file says, if it is a lease that can be right."""
    if not name.endswith(_SUFFIX):
        raise ValueError("not a name of a lease")
    lease = decode_lease(data)
    if lease.expires_ns > now_ns + int(LEASE_SECONDS_MAX * 1e9):
        raise ValueError(f"it says that it ends at {lease.expires_ns}, too far away")
    return lease
