"""Which objects of one kind have changed, found by looking at each of them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amqp_server.admin.change_feed.poll import Poll
    from amqp_server.admin.change_feed.row import Attributes

ObjectT = TypeVar("ObjectT")
GONE_MAX: Final = 20_000
"""Objects that have gone and are remembered; see `KnownObjects.lost_until`."""


class _Known:
    """One object, as it was reported last."""

    __slots__ = ("changed_in", "known_in", "number", "seen_in", "values")

    def __init__(self, number: int, generation: int) -> None:
        self.number = number
        self.known_in = self.changed_in = generation
        self.seen_in = 0
        self.values: list[Any] = []


class KnownObjects(Generic[ObjectT]):
    """The objects of one kind: connections, channels and the like. The event loop owns it.

    Each poll compares the values of all objects with those of the poll before.

    Attributes:
        lost_until: Objects that went in this generation, or before, may be forgotten.
    """

    def __init__(self) -> None:
        self.lost_until = 0
        self._known: dict[ObjectT, _Known] = {}
        self._gone: deque[tuple[int, int]] = deque()
        self._last_number = 0

    def see(
        self,
        seen: ObjectT,
        attributes: Callable[[ObjectT], Attributes],
        values: list[Any],
        poll: Poll,
    ) -> list[Any] | None:
        """Return the row of an object if it has changed since its reader polled last, else None.

        Args:
            seen: The object.
            attributes: Returns its attributes, which never change.
            values: Its values now.
            poll: The poll that sees it.
        """
        known = self._known.get(seen)
        if known is None:
            self._last_number += 1
            known = self._known[seen] = _Known(self._last_number, poll.found_in)
        known.seen_in = max(known.seen_in, poll.generation)
        if known.values != values:
            known.values = values
            known.changed_in = poll.found_in
        if known.changed_in <= poll.since:
            return None
        return [known.number, attributes(seen) if known.known_in > poll.since else None, *values]

    def forget_unseen(self, poll: Poll) -> Iterator[None]:
        """Forget, in steps, the objects that a whole poll has not seen: they are gone."""
        for seen, known in tuple(self._known.items()):
            if known.seen_in < poll.generation and self._known.pop(seen, None) is not None:
                last_in = self._gone[-1][0] if self._gone else 0
                self._gone.append((max(last_in, poll.found_in), known.number))
                if len(self._gone) > GONE_MAX:
                    self.lost_until, _ = self._gone.popleft()
            yield

    def forget_all(self, generation: int) -> None:
        """Forget everything that a poll reported, and before."""
        self._known.clear()
        self._gone.clear()
        self.lost_until = generation

    def gone_since(self, generation: int) -> list[int]:
        """Return the numbers of the objects that went after a generation."""
        gone: list[int] = []
        for gone_in, number in reversed(self._gone):
            if gone_in <= generation:
                break
            gone.append(number)
        return gone
