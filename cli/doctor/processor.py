"""The processor: cores that the process may use, and how fast the machine tells the time."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cli.doctor.finding import Finding, ok, unknown, warning

SUBJECT: Final = "processor"
CORES_WANTED: Final = 2
"""One for the event loop; the other for the disk's threads, and for the management server."""
_CPU_MAX: Final = Path("/sys/fs/cgroup/cpu.max")
_CLOCK_SOURCE: Final = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_SLOW_SOURCES: Final = ("acpi_pm", "hpet", "jiffies", "refined-jiffies")


def check_processor(
    cpu_max: Path = _CPU_MAX, clock_source: Path = _CLOCK_SOURCE
) -> Iterator[Finding]:
    """Yield whether there are cores enough.

    Args:
        cpu_max: File with the quota of the control group.
        clock_source: File with the name of the kernel's source of time.
    """
    cores = float(_usable_cores())
    quota = _quota_cores(cpu_max)
    text = f"{cores:g} cores"
    if quota is not None and quota < cores:
        cores, text = quota, f"{quota:g} of {cores:g} cores (limit of the control group)"
    if cores < CORES_WANTED:
        yield warning(
            SUBJECT,
            text,
            f"give it {CORES_WANTED}: one for the event loop, the other for the disk and the page",
        )
    else:
        yield ok(SUBJECT, text)
    try:
        source = clock_source.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        yield unknown(SUBJECT, "the kernel does not tell its source of time")
    else:
        if source in _SLOW_SOURCES:
            yield warning(
                SUBJECT,
                f"the kernel takes the time from {source}, which is slow",
                "see `dmesg` for why it does not use tsc",
            )


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota_cores(path: Path) -> float | None:
    """Return the cores that the control group may use; None if it has no limit."""
    try:
        quota, period = path.read_text(encoding="ascii").split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
