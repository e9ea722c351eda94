"""Leases: who reads a log in another process asks for its segments to stay meanwhile.

A lease is a small JSON file in the folder `leases` of the data directory, replaced whole each time
that it is renewed. It speaks of one queue from one offset on, and ends by itself: a reader that
was killed holds nothing for long. The server need not run for one to be taken.

A lease counts until its file has not changed for its lease time, by the monotonic clock of whoever
looks: wall clocks of two processes differ, and are set. A server that starts begins that time
again. The times in the file are for people, and for servers of older versions.
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

logger = logging.getLogger(__name__)

LEASES_FOLDER: Final = "leases"
LEASES_MAX: Final = 1000
"""No more are taken at a time."""
LEASE_BYTES_MAX: Final = 16 * 1024
LEASE_SECONDS: Final = 120.0
"""How long a lease holds after it was renewed."""
LEASE_SECONDS_MAX: Final = 3600.0
"""One that asks for more holds this long; one that is over, or broken, goes after this."""
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
        lease_seconds: How long it holds after it was renewed, >= 0.
        boot: Which start of which machine `renewed_ns` is of; empty where that is not known.
        renewed_ns: When it was renewed, by that machine's monotonic clock.
        expires_ns: When it ends, by the wall clock of its reader, nanoseconds since 1970 UTC. For
            people and older servers; nothing here compares it.
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
    def is_long_over(self) -> bool:
        """Whether the machine's own monotonic clock says that it ended more than an hour ago."""
        age_seconds = (time.monotonic_ns() - self.renewed_ns) / 1e9
        over_seconds = age_seconds - min(self.lease_seconds, LEASE_SECONDS_MAX)
        return over_seconds > LEASE_SECONDS_MAX and self.boot != "" and self.boot == _boot()

    def encode(self) -> bytes:
        """Return the file's bytes."""
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
            # Older versions do not write these.
            lease_seconds=fields.get("lease_seconds", LEASE_SECONDS),
            boot=str(fields.get("boot", "")),
            renewed_ns=fields.get("renewed_ns", 0),
            expires_ns=fields.get("expires_ns", 0),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a lease: {error!r}") from error
    for number in (lease.low_offset, lease.renewed_ns, lease.expires_ns):
        if type(number) is not int or number < 0:
            raise ValueError(f"not a lease: {number!r} is no number of it")
    seconds = lease.lease_seconds
    # Of NaN nothing is true.
    if type(seconds) not in (int, float) or not seconds >= 0:
        raise ValueError(f"not a lease: {seconds!r} is no lease time")
    return lease


def _boot() -> str:
    """Return what tells this start of this machine from all others; empty if nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


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

        Leases that are long over, of readers that were killed, make room if there are too many.

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
        held = cls(directory, Lease(name, vhost, queue, incarnation, low_offset), filesystem)
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
        """Renew the lease when half of its time is over.

        Raises:
            OSError: The file cannot be written; the old one holds to its end.
        """
        if time.monotonic_ns() - self.lease.renewed_ns > int(LEASE_SECONDS * 1e9 / 2):
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
    """Remove the leases that are long over, and return how many files are left.

    Who still has one of these writes it anew when it renews it.
    """
    left = len(names)
    for name in names:
        path = directory / name
        with suppress(OSError, ValueError, RecursionError):
            if decode_lease(filesystem.read_file(path, LEASE_BYTES_MAX)).is_long_over:
                filesystem.unlink(path)
                left -= 1
    return left


@dataclass(slots=True)
class _SeenFile:
    """A file of the folder, as it was when it was looked at last.

    Attributes:
        content: Hash of its octets.
        since_seconds: When it was first seen with that content.
        lease: What it says; None when it is no lease.
    """

    content: int
    since_seconds: float
    lease: Lease | None


class Leases:
    """The leases of a data directory, as whoever removes segments looks at them.

    One thread at a time.

    Args:
        storage_path: The data directory.
        filesystem: All file calls go through it.
        clock: Monotonic, in seconds.
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
        """Return, by incarnation, from which offset on segments have to stay.

        Removes what has been over, or broken, for long. What cannot be read is told once.
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
            lease, age_seconds = seen.lease, now_seconds - seen.since_seconds
            left_seconds = -age_seconds
            if lease is not None and not lease.is_long_over:
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
        """Return what is known of a file, by its content now; None when it has ended just now."""
        known = self._seen.get(name)
        try:
            data = self._filesystem.read_file(self._directory / name, LEASE_BYTES_MAX)
        except FileNotFoundError:
            return None
        except OSError as error:
            # As long as nobody can read it, it is as it was.
            if known is None:
                known = self._seen[name] = _SeenFile(0, now_seconds, None)
                self._complain(name, error)
            return known
        content = hash(data)
        if known is None or known.content != content:
            was_broken = known is not None and known.lease is None
            known = self._seen[name] = _SeenFile(content, now_seconds, None)
            try:
                known.lease = _decoded(name, data)
            except (ValueError, RecursionError) as error:
                if not was_broken:
                    self._complain(name, error)
        return known

    def _complain(self, name: str, error: Exception) -> None:
        # A file that is being written has another name for a moment.
        if name.endswith(_SUFFIX):
            logger.warning("lease ignored path=%s error=%s", self._directory / name, error)


def _decoded(name: str, data: bytes) -> Lease:
    """Return what a file says, if it is a lease."""
    if not name.endswith(_SUFFIX):
        raise ValueError("not a name of a lease")
    return decode_lease(data)
