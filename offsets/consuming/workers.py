"""Assignment of logs to workers, the same in every process at any time."""

from __future__ import annotations

import re
from typing import Final

from appendlog.sharding import SHARDS_MAX, pick_shard

_NUMBER: Final = re.compile(r"([0-9]{1,18})\Z")


def check_worker(worker: tuple[int, int]) -> None:
    """Check that the number of a worker is below the total.

    Raises:
        ValueError: The number or the total is out of range.
    """
    number, total = worker
    if not 0 <= number < total <= SHARDS_MAX:
        raise ValueError(f"worker {number} of {total} is not in 0 to {total - 1}")


def is_of_worker(name: str, worker: tuple[int, int]) -> bool:
    """Return whether a log belongs to a worker.

    Logs whose names end in a number are dealt in turn: the numbers of logs of two workers differ by
    at most one. New logs do not change the worker of existing ones.

    Args:
        name: Name of the log.
        worker: `(number, total)`, numbers from 0.
    """
    number, total = worker
    ending = _NUMBER.search(name)
    shard = int(ending[1]) % total if ending else pick_shard(name, total)
    return shard == number
