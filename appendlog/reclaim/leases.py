"""Leases: a reader in another process takes a lease, so that retention keeps its segments.

A lease is a small JSON file in the folder `leases` of the data directory; each renewal replaces the
whole file. It is for one queue from one offset on, and it expires: a killed reader does not block
retention for long. A reader can take a lease while the server is not running.

A lease is valid until its file has not changed for its lease time, by the observer's monotonic
clock: wall clocks of two processes differ, and people set them. A server that starts begins that
time again. The times in the file are for people, and for servers of older versions.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID, uuid4

from appendlog.errors import LogError
from appendlog.files.filesystem import FileSystem

logger = logging.getLogger("appendlog.reclaim.leases")

LEASES_FOLDER: Final = "leases"
LEASES_MAX: Final = 1000
"""Maximum number of leases at a time."""
LEASE_BYTES_MAX: Final = 16 * 1024
LEASE_SECONDS: Final = 120.0
"""Duration of a lease after its last renewal."""
LEASE_SECONDS_MAX: Final = 3600.0
"""Longest valid duration; expired or invalid leases are removed after this time."""
_SUFFIX: Final = ".json"


class TooManyLeasesError(LogError):
    """There are `LEASES_MAX` leases already."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Content of a lease file.

    Attributes:
        name: Name of the file, without its suffix.
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        incarnation: Incarnation of the queue.
        low_offset: Offset of the reader; retention keeps segments that reach past it.
        lease_seconds: Duration after the last renewal, >= 0.
        boot: Identifier of the machine's start that `renewed_ns` belongs to; empty if unknown.
        renewed_ns: Time of the last renewal, by that machine's monotonic clock.
        expires_ns: Time of expiry by the reader's wall clock, ns since 1970 UTC. For people and
            older servers; this version does not compare it.
    """

    name: str
    vhost: str
    queue: str
    incarnation: UUID
    low_offset: int
    lease_seconds: float = LEASE_SECONDS
    boot: str = ""
    renewed_ns: int = 0
    expires_ns: int = 0

    @property
    def has_long_expired(self) -> bool:
        """Whether the lease ended over an hour ago, by the monotonic clock of its own machine."""
        age_seconds = (time.monotonic_ns() - self.renewed_ns) / 1e9
        over_seconds = age_seconds - min(self.lease_seconds, LEASE_SECONDS_MAX)
        return over_seconds > LEASE_SECONDS_MAX and self.boot != "" and self.boot == _boot()

    def encode(self) -> bytes:
        """Return the content of the lease file."""
        fields = {
            "name": self.name,
            "vhost": self.vhost,
            "queue": self.queue,
            "incarnation": str(self.incarnation),
            "low_offset": self.low_offset,
            "lease_seconds": self.lease_seconds,
            "boot": self.boot,
            "renewed_ns": self.renewed_ns,
            "expires_ns": self.expires_ns,
        }
        return json.dumps(fields).encode() + b"\n"


def decode_lease(data: bytes) -> Lease:
    """Return the lease in a file's content.

    Raises:
        ValueError: The content is not a lease.
    """
    fields: Any = json.loads(data)
    try:
        lease = Lease(
            name=str(fields["name"]),
            vhost=str(fields["vhost"]),
            queue=str(fields["queue"]),
            incarnation=UUID(fields["incarnation"]),
            low_offset=fields["low_offset"],
            # Older versions do not write these fields.
            lease_seconds=fields.get("lease_seconds", LEASE_SECONDS),
            boot=str(fields.get("boot", "")),
            renewed_ns=fields.get("renewed_ns", 0),
            expires_ns=fields.get("expires_ns", 0),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a lease: {error!r}") from error
    for number in (lease.low_offset, lease.renewed_ns, lease.expires_ns):
        if type(number) is not int or number < 0:
            raise ValueError(f"not a lease: {number!r} is not an integer >= 0")
    seconds = lease.lease_seconds
    # Comparisons with NaN are false.
    if type(seconds) not in (int, float) or not seconds >= 0:
        raise ValueError(f"not a lease: {seconds!r} is not a lease time in seconds")
    return lease


def present_leases(storage_path: Path, filesystem: FileSystem | None = None) -> list[Lease]:
    """Return the leases that last, by the monotonic clock of this machine; for people."""
    filesystem = filesystem or FileSystem()
    directory = storage_path / LEASES_FOLDER
    found: list[Lease] = []
    try:
        names = sorted(filesystem.listdir(directory))[:LEASES_MAX]
    except OSError:
        return found
    for name in names:
        with suppress(OSError, ValueError, RecursionError):
            lease = _decoded(name, filesystem.read_file(directory / name, LEASE_BYTES_MAX))
            age_seconds = (time.monotonic_ns() - lease.renewed_ns) / 1e9
            if lease.boot == _boot() and age_seconds < min(lease.lease_seconds, LEASE_SECONDS_MAX):
                found.append(lease)
    return found


def _boot() -> str:
    """Return an identifier of this start of this machine; empty if there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class HeldLease:
    """Lease of this process, for one reader of one log.

    Leaving the `with` block ends it. Not thread-safe.

    Args:
        directory: Folder `leases` of the data directory.
        lease: Content of the lease; not written yet.
        filesystem: File operations of the log.
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

        If there are too many leases, this removes those of killed readers that expired long ago.

        Args:
            storage_path: Data directory.
            vhost: Virtual host of the queue.
            queue: Name of the queue.
            incarnation: Incarnation of the queue.
            low_offset: Offset from which on retention must keep segments.
            filesystem: File operations; those of the operating system by default.

        Raises:
            TooManyLeasesError: There are `LEASES_MAX` leases already.
            OSError: The file cannot be written.
        """
        filesystem = filesystem or FileSystem()
        directory = storage_path / LEASES_FOLDER
        if not filesystem.exists(directory):
            with suppress(FileExistsError):
                filesystem.mkdir(directory)
            filesystem.sync_directory(storage_path)
        names = filesystem.listdir(directory)
        if len(names) >= LEASES_MAX and _remove_expired(directory, names, filesystem) >= LEASES_MAX:
            raise TooManyLeasesError(
                f"{directory}: {LEASES_MAX} leases exist already: end some of their readers"
            )
        name = f"{incarnation}-{uuid4().hex}"
        held = cls(directory, Lease(name, vhost, queue, incarnation, low_offset), filesystem)
        held.renew()
        return held

    def renew(self, low_offset: int | None = None) -> None:
        """Extend the lease to `LEASE_SECONDS` from now.

        Args:
            low_offset: New low offset, below which retention may remove; unchanged by default.

        Raises:
            OSError: The file cannot be written; the old lease stays valid to its end.
        """
        old = self.lease
        lease = replace(
            old,
            low_offset=old.low_offset if low_offset is None else low_offset,
            lease_seconds=LEASE_SECONDS,
            boot=_boot(),
            renewed_ns=time.monotonic_ns(),
            expires_ns=time.time_ns() + int(LEASE_SECONDS * 1e9),
        )
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
        """Renew the lease if half of its time is over.

        Raises:
            OSError: The file cannot be written; the old lease stays valid to its end.
        """
        if time.monotonic_ns() - self.lease.renewed_ns > int(LEASE_SECONDS * 1e9 / 2):
            self.renew()

    def end(self) -> None:
        """End the lease: remove its file."""
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


def _remove_expired(directory: Path, names: list[str], filesystem: FileSystem) -> int:
    """Remove the leases that expired long ago, and return how many files are left.

    A reader that still uses one of them writes it again at its next renewal.
    """
    left = len(names)
    for name in names:
        path = directory / name
        with suppress(OSError, ValueError, RecursionError):
            if decode_lease(filesystem.read_file(path, LEASE_BYTES_MAX)).has_long_expired:
                filesystem.unlink(path)
                left -= 1
    return left


@dataclass(slots=True)
class _SeenFile:
    """File of the folder, as it was at the last look.

    Attributes:
        content: Hash of its bytes.
        since_seconds: Time when it was first seen with that content.
        lease: Lease in the file; None if it is not a lease.
    """

    content: int
    since_seconds: float
    lease: Lease | None


class Leases:
    """Leases of a data directory, for the remover of segments.

    One thread at a time.

    Args:
        storage_path: Data directory.
        filesystem: File operations of the log.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        storage_path: Path,
        filesystem: FileSystem,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = storage_path / LEASES_FOLDER
        self._filesystem = filesystem
        self._clock = clock
        self._seen: dict[str, _SeenFile] = {}

    def low_offsets(self) -> Mapping[UUID, int]:
        """Return, by incarnation, the offset from which on segments have to stay.

        Removes leases that expired or were invalid long ago. Logs an unreadable lease once.
        """
        lows: dict[UUID, int] = {}
        now_seconds = self._clock()
        try:
            names = sorted(self._names())[:LEASES_MAX]
        except OSError as error:
            logger.warning("leases not read path=%s error=%s", self._directory, error)
            return lows
        for name in self._seen.keys() - set(names):
            del self._seen[name]
        for name in names:
            seen = self._look(name, now_seconds)
            if seen is None:
                continue
            lease = seen.lease
            age_seconds = now_seconds - seen.since_seconds
            left_seconds = -age_seconds
            if lease is not None and not lease.has_long_expired:
                left_seconds += min(lease.lease_seconds, LEASE_SECONDS_MAX)
            if lease is not None and left_seconds > 0:
                low = min(lease.low_offset, lows.get(lease.incarnation, lease.low_offset))
                lows[lease.incarnation] = low
            elif -left_seconds > LEASE_SECONDS_MAX:
                del self._seen[name]
                with suppress(OSError):
                    self._filesystem.unlink(self._directory / name)
        return lows

    def _names(self) -> list[str]:
        if not self._filesystem.exists(self._directory):
            return []
        return self._filesystem.listdir(self._directory)

    def _look(self, name: str, now_seconds: float) -> _SeenFile | None:
        """Return the state of a file by its present content; None if its lease has just expired."""
        known = self._seen.get(name)
        try:
            data = self._filesystem.read_file(self._directory / name, LEASE_BYTES_MAX)
        except FileNotFoundError:
            return None
        except OSError as error:
            # While it cannot be read, treat it as unchanged.
            if known is None:
                known = self._seen[name] = _SeenFile(0, now_seconds, None)
                self._warn_ignored(name, error)
            return known
        content = hash(data)
        if known is None or known.content != content:
            was_broken = known is not None and known.lease is None
            known = self._seen[name] = _SeenFile(content, now_seconds, None)
            try:
                known.lease = _decoded(name, data)
            except (ValueError, RecursionError) as error:
                if not was_broken:
                    self._warn_ignored(name, error)
        return known

    def _warn_ignored(self, name: str, error: Exception) -> None:
        # A file that is being written has another suffix for a moment.
        if name.endswith(_SUFFIX):
            logger.warning("lease ignored path=%s error=%s", self._directory / name, error)


def _decoded(name: str, data: bytes) -> Lease:
    """Return the lease in a file, if the file is one."""
    if not name.endswith(_SUFFIX):
        raise ValueError("not a name of a lease")
    return decode_lease(data)
