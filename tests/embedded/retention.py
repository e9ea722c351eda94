"""Roots that remove what they need not keep, for tests."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appendlog import EmbeddedOptions
from offsets import LogRoot

real_time_ns = time.time_ns
COUNT = 100


@contextmanager
def opened(path: Path, **options: object) -> Iterator[LogRoot]:
    """Open a root with small segments that removes only what it is told to."""
    chosen: dict[str, object] = {
        "sync_interval_seconds": 0.0,
        "segment_bytes": 600,
        "retention_interval_seconds": 0.0,
        **options,
    }
    with LogRoot.open(path, EmbeddedOptions(**chosen)) as root:  # type: ignore[arg-type]
        yield root


def start_of(root: LogRoot, name: str = "events") -> int:
    return root.log(name).log.log_start_offset
