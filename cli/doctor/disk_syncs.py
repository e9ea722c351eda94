"""How long the disk takes to make a write durable: a confirm takes at least as long."""

import errno
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

from cli.doctor.directory import existing
from cli.doctor.finding import Finding, error, ok, warning

SUBJECT: Final = "disk syncs"
WRITE_BYTES: Final = 4096
SYNCS_MAX: Final = 200
SECONDS_MAX: Final = 2.0
"""Time after which no further sync is begun."""
SLOW_SECONDS: Final = 0.02
STALL_SECONDS: Final = 1.0
UNBELIEVABLE_SECONDS: Final = 20e-6
"""No disk is that fast: what is synced stays in memory."""
_SYNC: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)


def check_disk_syncs(
    storage_path: Path,
    sync: Callable[[int], None] = _SYNC,
    now: Callable[[], float] = time.perf_counter,
) -> Iterator[Finding]:
    """Yield how long writes take to be durable, each after the other.

    The file has no name, so that nothing is left of it whatever happens.

    Args:
        storage_path: The data directory; need not exist.
        sync: Makes what was written to a descriptor durable.
        now: Seconds that never decrease.
    """
    place = existing(storage_path)
    try:
        seconds = _measured(place, sync, now)
    except OSError as problem:
        yield error(
            SUBJECT,
            f"cannot write there: {problem.strerror}",
            "make the directory writable for this user, on a disk that works",
        )
        return
    usual, worst = median(seconds), max(seconds)
    text = (
        f"{usual * 1000:.2f} ms, at worst {worst * 1000:.1f} of {len(seconds)}: a publisher that "
        f"waits for each confirm gets at most {1 / usual:.0f} a second"
    )
    if usual < UNBELIEVABLE_SECONDS:
        yield warning(
            SUBJECT,
            f"{usual * 1e6:.0f} microseconds: what is synced stays in memory, and is lost with it",
            "use a disk that syncs, unless nothing has to outlive the machine",
        )
    elif usual > SLOW_SECONDS:
        yield warning(
            SUBJECT, text, "use a faster disk, or let publishers not wait for each confirm"
        )
    elif worst > STALL_SECONDS:
        yield warning(
            SUBJECT, text, "find out what else uses the disk: such a pause delays all confirms"
        )
    else:
        yield ok(SUBJECT, text)


def _measured(place: Path, sync: Callable[[int], None], now: Callable[[], float]) -> list[float]:
    """Return the seconds of each write with its sync."""
    descriptor = _unnamed_file(place)
    try:
        octets = os.urandom(WRITE_BYTES)
        seconds: list[float] = []
        began = now()
        while len(seconds) < SYNCS_MAX and (not seconds or now() - began < SECONDS_MAX):
            before = now()
            os.write(descriptor, octets)
            sync(descriptor)
            seconds.append(max(now() - before, 1e-9))
        return seconds
    finally:
        os.close(descriptor)


def _unnamed_file(place: Path) -> int:
    """Return a descriptor of a file without a name on the disk of a directory."""
    if hasattr(os, "O_TMPFILE"):
        try:
            return os.open(place, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            if problem.errno not in (errno.EISDIR, errno.EOPNOTSUPP, errno.ENOENT):
                raise
    descriptor, name = tempfile.mkstemp(prefix="amqp-server-doctor-", dir=place)
    Path(name).unlink()
    return descriptor
