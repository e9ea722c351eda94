"""Waits until the machine has come to rest: a broker may still be busy with the run before."""

import time
from typing import Final

from bench.process_stats import machine_cpu_seconds

_LOOK_SECONDS: Final = 0.2
_IDLE_CORES: Final = 0.1


def wait_until_quiet(seconds_max: float) -> bool:
    """Wait until nothing takes more than a tenth of a core, and say whether it came to that.

    Args:
        seconds_max: How long to wait for it.
    """
    deadline = time.monotonic() + seconds_max
    while True:
        before, start = machine_cpu_seconds(), time.monotonic()
        time.sleep(_LOOK_SECONDS)
        cores = (machine_cpu_seconds() - before) / (time.monotonic() - start)
        if cores <= _IDLE_CORES:
            return True
        if time.monotonic() >= deadline:
            return False
