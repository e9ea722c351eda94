"""The clock: whether something sets it, and whether it is behind the data."""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

from cli.display import shown
from cli.doctor.directory import ENTRIES_MAX
from cli.doctor.finding import Finding, error, ok, unknown, warning

SUBJECT: Final = "clock"
BEHIND_SECONDS_MAX: Final = 60.0
"""Time by which a log forgives a clock that is set back."""
_UNSYNCHRONISED: Final = 0x40
"""`STA_UNSYNC` of adjtimex(2)."""
_TIMEX_BYTES: Final = 512
_ADVICE: Final = "run chrony or systemd-timesyncd: retention, delays and TLS go by the clock"


def check_clock(
    storage_path: Path,
    now: Callable[[], float] = time.time,
    is_synchronised: Callable[[], bool | None] | None = None,
) -> Iterator[Finding]:
    """Yield whether the clock is set by something, and not behind what was written before.

    Args:
        storage_path: The data directory; need not exist.
        now: Seconds since 1970.
        is_synchronised: Tells whether something sets the clock; None if the system does not tell.
    """
    here = now()
    text = datetime.fromtimestamp(here, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    newest = _newest_file(storage_path)
    if newest is not None and newest[0] > here + BEHIND_SECONDS_MAX:
        behind = newest[0] - here
        yield error(
            SUBJECT,
            f"{text} is {behind / 60:.0f} minutes before {shown(str(newest[1]))} was written",
            "set the clock before a server starts: messages would be kept or expire too long",
        )
        return
    found = (is_synchronised or _is_synchronised)()
    if found is None:
        yield unknown(SUBJECT, f"{text}; whether something sets it is not known here")
    elif found:
        yield ok(SUBJECT, f"{text}, synchronised")
    else:
        yield warning(SUBJECT, f"{text}; nothing synchronises it", _ADVICE)


def _is_synchronised() -> bool | None:
    """Return what the kernel says, or None if it cannot be asked."""
    if not sys.platform.startswith("linux"):
        return None
    # Only the first fields are read; modes is 0, so that nothing is set.
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    except (OSError, AttributeError):
        return None
    if state < 0:
        return None
    word = ctypes.sizeof(ctypes.c_long)
    # modes (padded), offset, freq, maxerror, esterror; then the status.
    status = ctypes.c_int.from_buffer(buffer, 5 * word).value
    return not status & _UNSYNCHRONISED


def _newest_file(storage_path: Path) -> tuple[float, Path] | None:
    """Return the latest time of change of a file of the data directory, and the file."""
    found = None
    for path in islice(storage_path.rglob("*"), ENTRIES_MAX):
        try:
            changed = os.lstat(path).st_mtime
        except OSError:
            continue
        if found is None or changed > found[0]:
            found = (changed, path)
    return found
