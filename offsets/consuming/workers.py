"""Which of several workers has which log: the same in every process, whoever looks when."""

from __future__ import annotations

import re
from typing import Final

from appendlog.sharding import SHARDS_MAX, pick_shard

_NUMBER: Final = re.compile(r"([0-9]{1,18})\Z")


def check_worker(worker: tuple[int, int]) -> None:
    """Check that a worker is one of its total.

    Raises:
        ValueError: It is not.
    """
    number, total = worker
    if not 0 <= number < total <= SHARDS_MAX:
        raise ValueError(f"worker {number} of {total} is not in 0 to {total - 1}")


def is_of_worker(name: str, worker: tuple[int, int]) -> bool:
    """Tell whether a log is one of a worker's.

    Logs that end in a number go round: each worker has as many as the others, or one more. What a
    log belongs to does not change when others appear.

    Args:
        name: Of the log.
        worker: `(number, total)`, numbers from 0.
    """
    number, total = worker
    ending = _NUMBER.search(name)
    shard = int(ending[1]) % total if ending else pick_shard(name, total)
    return shard == number
