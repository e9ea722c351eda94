"""What clients learned, and when: it says what must be there after a crash, and what may.

Time is the number of operations that the server had begun on its disk. A crash in operation N
comes behind everything with a stamp up to N.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

NEVER: Final = 1 << 60


@dataclass(eq=False, slots=True)
class Span:
    """The life of something durable, from the view of a client.

    Attributes:
        begun: Asked for: from now on it may be there.
        sure: Promised: from now on it must be there.
        ending: Asked to go: from now on it need not be there.
        gone: Promised to be gone: from now on it must not be there.
    """

    begun: int = NEVER
    sure: int = NEVER
    ending: int = NEVER
    gone: int = NEVER

    def must(self, at: int) -> bool:
        """Tell whether a crash in operation `at` must leave it."""
        return self.sure <= at < self.ending

    def may(self, at: int) -> bool:
        """Tell whether a crash in operation `at` may leave it."""
        return self.begun <= at < self.gone


@dataclass(eq=False, slots=True)
class Placed(Span):
    """A message in a queue.

    Attributes:
        body: Its body; no two messages have the same, but a dead letter has that of its source.
        queue: Name of the queue; empty when it could not get into one.
        is_persistent: Whether it asks to survive.
        delivered: When it was delivered for the first time.
        waits_for: Its copy elsewhere, which has to be safe before this one may go.
        settling: When the server that runs had heard of its end; after a crash the next may not.
        dropped: Asked to go without a copy: acknowledged, purged, deleted with its queue.
        dropped_again: Asked so a second time: the first one was refused.
        is_late: Whether it may have come behind later ones: a letter that was tried again.
    """

    body: bytes = b""
    queue: str = ""
    is_persistent: bool = True
    delivered: int = NEVER
    waits_for: Placed | None = None
    settling: int = NEVER
    dropped: int = NEVER
    dropped_again: int = NEVER
    is_late: bool = False


@dataclass(eq=False, slots=True)
class Life(Span):
    """A queue from its declaration to its deletion; another of that name is another one.

    Attributes:
        name: Of the queue.
        placed: Its messages in their order.
        is_unsure: Whether its declaration or deletion was refused: then its state is unknown.
    """

    name: str = ""
    placed: list[Placed] = field(default_factory=list)
    is_unsure: bool = False


@dataclass(slots=True)
class Together:
    """What must happen as a whole: messages that come and messages that go.

    Attributes:
        coming: Published by a transaction.
        going: Acknowledged by it.
        begun: When the commit was asked for.
    """

    coming: list[Placed]
    going: list[Placed]
    begun: int


@dataclass(slots=True)
class History:
    """All that a client knows.

    Attributes:
        lives: Of all queues, in order.
        bindings: Of queues, by exchange, key and queue.
        transactions: That were begun to be committed.
        clean: Times between which the data directory says that the stop was clean.
        offsets: By incarnation and offset: when a record was published as durable, and its bytes.
    """

    lives: list[Life] = field(default_factory=list)
    bindings: dict[tuple[str, str, str], Span] = field(default_factory=dict)
    transactions: list[Together] = field(default_factory=list)
    clean: list[tuple[int, int]] = field(default_factory=list)
    offsets: dict[str, dict[int, tuple[int, bytes]]] = field(default_factory=dict)

    def live(self, name: str) -> Life | None:
        """Return the queue of this name that a client may use now."""
        lives = self.named(name)
        return lives[-1] if lives and lives[-1].gone == NEVER else None

    def named(self, name: str) -> list[Life]:
        """Return all queues that had this name."""
        return [life for life in self.lives if life.name == name]

    def is_unsure(self, name: str) -> bool:
        """Return whether it is unknown which queue has this name."""
        return any(life.is_unsure for life in self.named(name))

    def note_crash(self, now: int) -> None:
        """Note that all messages come back marked, and some that were settled."""
        for life in self.lives:
            for placed in life.placed:
                placed.delivered = min(placed.delivered, now)
                placed.settling = NEVER

    def is_bound(self, exchange: str, key: str, queue: str) -> bool:
        """Return whether a client got bind-ok for such a binding."""
        span = self.bindings.get((exchange, key, queue))
        return span is not None and span.sure != NEVER

    def settle_durably(self, since: int, now: int) -> None:
        """Note that a checkpoint which began at `since` is on the disk.

        It is unknown of a message that was never confirmed whether the log had it on the disk,
        and so whether the checkpoint could name it.
        """
        for life in self.lives:
            for placed in life.placed:
                is_elsewhere = placed.waits_for is None or placed.waits_for.sure <= since
                if placed.sure <= since and placed.settling <= since and is_elsewhere:
                    placed.gone = min(placed.gone, now)
