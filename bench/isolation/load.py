"""The control: the CPU and the disk writes of an attack, spent outside of the broker."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROUNDS: Final = 10_000


def burn_cpu(cpu_seconds: float, seconds_max: float) -> Iterator[None]:
    """Report None; use CPU without a pause, and report None again.

    Args:
        cpu_seconds: CPU to use.
        seconds_max: Longest time; a busy machine has less CPU to give.
    """
    yield None
    deadline = time.monotonic() + seconds_max
    cpu_deadline = time.process_time() + cpu_seconds
    while time.process_time() < cpu_deadline and time.monotonic() < deadline:
        for _ in range(_ROUNDS):
            pass
    yield None


def write_disk(directory: Path, count: int, size: int, seconds: float) -> Iterator[None]:
    """Report None; append to a file and sync it many times; report None again.

    Args:
        directory: Directory for the file, which is removed.
        count: Number of appends, spread over the time.
        size: Bytes of each append.
        seconds: Time for all appends; a slow disk takes longer.
    """
    octets = bytes(size)
    with tempfile.TemporaryFile(dir=directory) as file:
        yield None
        start = time.monotonic()
        for number in range(count):
            wait = start + number * seconds / count - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            os.write(file.fileno(), octets)
            os.fdatasync(file.fileno())
        yield None
