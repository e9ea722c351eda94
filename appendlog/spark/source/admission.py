"""Computes how much one batch of a stream reads from each queue.

As in Kafka's source, the queues share a limit in proportion to what each has to read. So long
backlogs of all queues end at about the same time. A queue with unread messages always gets a part,
however small, so that a busier queue cannot starve it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_TRIGGER_DELAY_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that the user set for a batch; None where there is no limit.

    Attributes:
        offsets_max: Most offsets of a batch, over all queues.
        bytes_max: Most bytes of log of a batch, over all queues; a piece that cannot be cut may
            exceed it.
        offsets_min: Least offsets of a batch, over all queues ...
        delay_seconds_max: ... unless this many seconds have passed since the last batch.
    """

    offsets_max: int | None = None
    bytes_max: int | None = None
    offsets_min: int | None = None
    delay_seconds_max: float = MAX_TRIGGER_DELAY_SECONDS


def share_out(limit: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Return the share of each queue in a limit, in proportion to what it wants.

    The shares add up to `limit`, or to all that is wanted if that is less. If more queues want
    something than the limit is, each of them gets 1.

    Args:
        limit: Number to share, at least 1.
        wanted: What each queue wants, by name; a queue that wants 0 gets 0.
    """
    above = {name: max(want - 1, 0) for name, want in wanted.items()}
    shares = {name: min(want, 1) for name, want in wanted.items()}
    left = limit - sum(shares.values())
    total = sum(above.values())
    if total <= left:
        return dict(wanted)
    if left <= 0:
        return shares
    for name, want in above.items():
        shares[name] += left * want // total
    # Rounding down leaves less than 1 for each queue: the largest remainders get it.
    rounded = limit - sum(shares.values())
    for name in sorted(above, key=lambda name: (-(left * above[name] % total), name))[:rounded]:
        shares[name] += 1
    return shares


@dataclass(slots=True)
class TriggerDelay:
    """Delays batches that are too small. One for each stream; not thread-safe.

    Attributes:
        clock: Returns seconds since any moment; never goes back.
    """

    clock: Callable[[], float]
    _last_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        self._last_seconds = self.clock()

    def is_waiting(self, available: int, limits: Limits) -> bool:
        """Return whether to wait for more than this many offsets.

        Starts the delay again when it returns false and there are offsets: they become a batch.
        """
        if available == 0:
            return False
        now = self.clock()
        is_early = now - self._last_seconds < limits.delay_seconds_max
        if limits.offsets_min is not None and available < limits.offsets_min and is_early:
            return True
        self._last_seconds = now
        return False
