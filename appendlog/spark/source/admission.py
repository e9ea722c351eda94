"""How much one batch of a stream takes: pure arithmetic over what is there.

Limits are shared out over the queues in proportion to what each has, as Kafka's source does it:
a long backlog is worked off in about the same time everywhere. Every queue that has something
gets something, however small its share, so none can be starved by a busier one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_TRIGGER_DELAY_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What was asked for; None where nothing was.

    Attributes:
        offsets_max: Offsets of a batch, over all queues.
        bytes_max: Bytes of log of a batch, over all queues; passed by what cannot be cut.
        offsets_min: Wait for this many ...
        delay_seconds_max: ... but no longer than this after the batch before.
    """

    offsets_max: int | None = None
    bytes_max: int | None = None
    offsets_min: int | None = None
    delay_seconds_max: float = MAX_TRIGGER_DELAY_SECONDS


def share_out(limit: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Return what each gets of a limit: in proportion, all of it, and nobody nothing.

    The shares add up to `limit`, or to all that is wanted if that is less. Where the limit is
    less than the number of those who want something, each gets 1.

    Args:
        limit: At least 1.
        wanted: By name; who wants 0 gets 0.
    """
    above = {name: max(want - 1, 0) for name, want in wanted.items()}
    shares = {name: min(want, 1) for name, want in wanted.items()}
    left, total = limit - sum(shares.values()), sum(above.values())
    if total <= left:
        return dict(wanted)
    if left <= 0:
        return shares
    for name, want in above.items():
        shares[name] += left * want // total
    # Rounding down leaves less than 1 for each: the largest remainders get it.
    rounded = limit - sum(shares.values())
    for name in sorted(above, key=lambda name: (-(left * above[name] % total), name))[:rounded]:
        shares[name] += 1
    return shares


@dataclass(slots=True)
class TriggerDelay:
    """Waiting for a batch that is worth it. One for each stream; not thread-safe.

    Attributes:
        clock: Seconds, from any beginning, never going back.
    """

    clock: Callable[[], float]
    _last_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        self._last_seconds = self.clock()

    def is_waiting(self, available: int, limits: Limits) -> bool:
        """Tell whether no batch is to be made yet of this many offsets.

        When it says no, and there are any, the time begins anew: there is a batch now.
        """
        if available == 0:
            return False
        now = self.clock()
        is_early = now - self._last_seconds < limits.delay_seconds_max
        if limits.offsets_min is not None and available < limits.offsets_min and is_early:
            return True
        self._last_seconds = now
        return False
