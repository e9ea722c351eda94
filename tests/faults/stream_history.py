"""What the clients of one stream and its groups learned, and when.

Time is the number of operations that the server had begun on its disk, as in `history`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.faults.history import NEVER, Span

Records = dict[int, bytes]
"""Bodies by offset."""


@dataclass(eq=False, slots=True)
class Acked:
    """An offset that a group acknowledged: asked at `begun`, on the disk at `sure`."""

    begun: int
    sure: int = NEVER


@dataclass(eq=False, slots=True)
class Place:
    """A group's way from one place on: its first, or where it was moved to.

    Attributes:
        floor: Where it began.
        begun: Asked for.
        sure: On the disk.
        acked: By offset.
    """

    floor: int
    begun: int = 0
    sure: int = NEVER
    acked: dict[int, Acked] = field(default_factory=dict)

    def fits(self, got: Records, there: Records, at: int) -> str | None:
        """Return why a crash in operation `at` cannot have left this; None if it can.

        Args:
            got: What the group was given afterwards, of `there`.
            there: All that the stream has and retention had not taken.
            at: The operation.
        """
        for offset in there:
            acked = self.acked.get(offset)
            if offset < self.floor or (acked is not None and acked.sure <= at):
                if offset in got:
                    return f"{offset} comes again"
            elif offset not in got and (acked is None or acked.begun > at):
                return f"{offset} is withheld"
        return None


@dataclass(slots=True)
class StreamHistory:
    """All that the clients know.

    Attributes:
        published: In order: body, and when it was asked for and confirmed.
        seen: By offset: what a consumer was given, and when.
        starts: When a round that could shorten the stream was begun, and where it began then.
        groups: By name: the places, in order.
    """

    published: dict[bytes, Span] = field(default_factory=dict)
    seen: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    starts: list[tuple[int, int]] = field(default_factory=list)
    groups: dict[str, list[Place]] = field(default_factory=dict)

    def place(self, group: str) -> Place:
        """Return where a group is on its way from."""
        return self.groups.setdefault(group, [Place(0, 0, 0)])[-1]

    def checkpointed(self, since: int, now: int) -> None:
        """Note that a round which began at `since` is on the disk."""
        for places in self.groups.values():
            for place in places:
                if place.begun <= since:
                    place.sure = min(place.sure, now)
                for acked in place.acked.values():
                    if acked.begun <= since:
                        acked.sure = min(acked.sure, now)

    def check(self, there: Records, at: int) -> None:
        """Check a stream that a crash in operation `at` has left."""
        bodies = list(there.values())
        assert len(set(bodies)) == len(bodies), "twice the same message"
        unexpected = [body for body in bodies if not self.published[body].begun <= at]
        assert not unexpected, f"unexpected {unexpected[:3]}"
        may_begin_at = self._may_begin_at(at)
        assert min(there, default=0) <= may_begin_at, "shortened by too much"
        sure = [body for body, span in self.published.items() if span.sure <= at]
        gone = {body for offset, (body, _) in self.seen.items() if offset < may_begin_at}
        lost = [body for body in sure if body not in set(bodies) | gone]
        assert not lost, f"lost {lost[:3]}"
        order = [body for body in sure if body in set(bodies)]
        assert [body for body in bodies if body in set(order)] == order, "disordered"
        for offset, (body, stamp) in self.seen.items():
            if stamp <= at:
                assert there.get(offset, body) == body, f"I9: {offset} has another message"

    def check_group(self, group: str, got: Records, there: Records, at: int) -> None:
        """Check what a group is given of a stream that a crash in operation `at` has left."""
        # The crash may have brought back what retention had taken; it is not the group's any more.
        start = self._may_begin_at(at)
        kept = {offset: body for offset, body in there.items() if offset >= start}
        places = self.groups.get(group, [Place(0, 0, 0)])
        last = max(number for number, place in enumerate(places) if place.sure <= at)
        possible = [places[last], *(place for place in places[last + 1 :] if place.begun <= at)]
        reasons = [place.fits(got, kept, at) for place in possible]
        assert None in reasons, f"group {group}: {reasons}"

    def _may_begin_at(self, at: int) -> int:
        return max((start for begun, start in self.starts if begun <= at), default=0)
