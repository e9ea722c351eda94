"""Counts the tasks that a Spark on this machine runs at once."""

import os
import re
from typing import Final

_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:, *\d+)?\])?\Z")


def local_cores(master: str) -> int | None:
    """Return the number of cores of a local master, at least one; None for a cluster."""
    found = _LOCAL.match(master)
    if found is None:
        return None
    if found[1] == "*":
        return os.cpu_count() or 1
    return max(int(found[1] or 1), 1)
