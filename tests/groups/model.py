"""What consumer groups of one stream must be like: sets of offsets, and nothing clever."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class ModelGroup:
    """One group.

    Attributes:
        name: Its name.
        start: Where it began, or was moved to: nothing below it is asked for.
        settled: What was acked, committed or dropped at or above `start`.
        delivered: What was delivered since it began, or was moved.
        returns: How often each offset came back.
        outstanding: What is with a member, by offset.
        dropped: Offsets that retention took, and no delivery has told of yet.
        knows_returns: Whether `returns` is exact: not after a crash.
    """

    name: str
    start: int
    settled: set[int] = field(default_factory=set)
    delivered: set[int] = field(default_factory=set)
    returns: dict[int, int] = field(default_factory=dict)
    outstanding: set[int] = field(default_factory=set)
    dropped: int = 0
    knows_returns: bool = True

    @property
    def floor(self) -> int:
        """All below it is done."""
        floor = self.start
        while floor in self.settled:
            floor += 1
        return floor

    def ready(self, end: int) -> list[int]:
        """Return what could be delivered, in order."""
        return [
            offset
            for offset in range(self.start, end)
            if offset not in self.settled and offset not in self.outstanding
        ]

    def unsettled(self, end: int) -> set[int]:
        """Return what the group is not done with."""
        return set(range(self.start, end)) - self.settled

    def done(self) -> set[int]:
        """Return all that is done, what it never asked for too."""
        return set(range(self.start)) | self.settled

    def requeue(self, offset: int) -> None:
        """Take note that a delivery was not acked; what is settled meanwhile stays so."""
        if offset in self.outstanding:
            self.outstanding.discard(offset)
            self.returns[offset] = self.returns.get(offset, 0) + 1

    def settle(self, offset: int) -> None:
        """Take note of an ack."""
        if offset in self.outstanding:
            self.outstanding.discard(offset)
            self.settled.add(offset)

    def move(self, offset: int) -> None:
        """Take note of a seek: deliveries from before do not matter any more."""
        self.start = offset
        self.settled, self.delivered, self.returns = set(), set(), {}
        self.outstanding = set()

    def drop_below(self, log_start: int) -> None:
        """Take note that retention has taken what lies below."""
        gone = set(self.unsettled(log_start))
        self.settled |= gone
        self.outstanding -= gone
        self.dropped += len(gone)
