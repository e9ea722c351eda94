"""What was sent, what was promised and what came: the history of a kill loop.

A publisher and a sequence number identify a message, and determine its body.
Every publisher's messages go to every queue; each queue's deliveries are kept apart.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

BODY_REPEATS_MAX = 200


class MessageId(NamedTuple):
    """A message of one publisher."""

    publisher: int
    sequence: int

    @property
    def body(self) -> bytes:
        """Its whole body: of 8 to some 2,000 bytes, and no two alike."""
        words = b"%d:%d " % self
        return words * (1 + self.sequence * 7919 % BODY_REPEATS_MAX)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as it came.

    Attributes:
        message_id: As its body says.
        redelivered: Its flag.
        session: Which connection of which consumer it came to.
    """

    message_id: MessageId
    redelivered: bool
    session: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the history say of one queue; the first four must be empty.

    Attributes:
        lost: Confirmed, and never delivered.
        unexpected: Delivered, and never sent, or with another body.
        unmarked: Delivered again without the redelivered flag.
        disordered: Delivered for the first time after a later one of the same publisher, in
            one session.
        sent: Messages that a publisher began to send.
        confirmed: Of those, the ones that were acknowledged to it.
        received: Messages that came at least once.
        redelivered: Deliveries that were marked.
    """

    lost: list[MessageId]
    unexpected: list[bytes]
    unmarked: list[MessageId]
    disordered: list[MessageId]
    sent: int
    confirmed: int
    received: int
    redelivered: int

    def __add__(self, other: Verdict) -> Verdict:
        """Return what the history says of two periods together."""
        return Verdict(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.unexpected or self.unmarked or self.disordered)

    def __str__(self) -> str:
        """Return the totals in one line."""
        return (
            f"sent={self.sent} confirmed={self.confirmed} received={self.received} "
            f"redelivered={self.redelivered} lost={len(self.lost)} "
            f"unexpected={len(self.unexpected)} unmarked={len(self.unmarked)} "
            f"disordered={len(self.disordered)}"
        )


NOTHING: Final = Verdict([], [], [], [], 0, 0, 0, 0)


class Ledger:
    """The history of all publishers and queues. Any thread may write.

    Args:
        queues: Names of the queues that every message goes to.
    """

    def __init__(self, queues: tuple[str, ...]) -> None:
        self._changed = threading.Condition()
        self._sequences: Counter[int] = Counter()
        # Of messages that are gone for good.
        self._closed: Counter[int] = Counter()
        self._confirmed: set[MessageId] = set()
        self._refused: list[MessageId] = []
        self._deliveries: dict[str, list[Delivery]] = {queue: [] for queue in queues}
        self._unexpected: dict[str, list[bytes]] = {queue: [] for queue in queues}
        self._sessions = 0

    def next_session(self) -> int:
        """Return a number for a consumer's new connection."""
        with self._changed:
            self._sessions += 1
            return self._sessions

    def send(self, publisher: int) -> MessageId:
        """Return the next message of a publisher, which counts as sent."""
        with self._changed:
            sequence = self._sequences[publisher]
            self._sequences[publisher] += 1
        return MessageId(publisher, sequence)

    def confirm(self, messages: list[MessageId]) -> None:
        """Note what the server has acknowledged."""
        with self._changed:
            self._confirmed.update(messages)
            self._changed.notify_all()

    def refuse(self, messages: list[MessageId]) -> None:
        """Note what the server has answered with a nack: on a good disk nothing."""
        with self._changed:
            self._refused.extend(messages)

    def deliver(self, queue: str, body: bytes, *, redelivered: bool, session: int) -> None:
        """Note a message that came."""
        message_id = self._parse(body)
        with self._changed:
            if message_id is None:
                self._unexpected[queue].append(body)
            else:
                self._deliveries[queue].append(Delivery(message_id, redelivered, session))

    @property
    def confirmed_count(self) -> int:
        """How many messages were confirmed."""
        with self._changed:
            return len(self._confirmed)

    def wait_until_confirmed(self, count: int, seconds_max: float) -> None:
        """Return when as many messages are confirmed in all.

        Args:
            count: How many.
            seconds_max: Without one more confirmed; a busy machine may take longer for all.
        """
        with self._changed:
            while (known := len(self._confirmed)) < count:
                is_more = partial(self._is_confirmed_beyond, known)
                moved = self._changed.wait_for(is_more, seconds_max)
                assert moved, f"{known} confirmed, waited for {count}"

    def _is_confirmed_beyond(self, known: int) -> bool:
        return len(self._confirmed) > known

    def check(self, queue: str) -> Verdict:
        """Return what the history says of one queue."""
        assert not self._refused, f"nacks on a good disk: {self._refused[:10]}"
        deliveries = self._deliveries[queue]
        received = {delivery.message_id for delivery in deliveries}
        return Verdict(
            lost=sorted(self._confirmed - received),
            unexpected=list(self._unexpected[queue]),
            unmarked=_unmarked(deliveries),
            disordered=_disordered(deliveries),
            sent=(self._sequences - self._closed).total(),
            confirmed=len(self._confirmed),
            received=len(received),
            redelivered=sum(delivery.redelivered for delivery in deliveries),
        )

    def close(self) -> None:
        """Begin a new history: all messages so far were taken, and none may come again."""
        with self._changed:
            self._closed = self._sequences.copy()
            self._confirmed.clear()
            for queue in self._deliveries:
                self._deliveries[queue].clear()
                self._unexpected[queue].clear()

    def _parse(self, body: bytes) -> MessageId | None:
        words = body.partition(b" ")[0].split(b":")
        if len(words) != 2 or not all(word.isdigit() for word in words):
            return None
        message_id = MessageId(int(words[0]), int(words[1]))
        publisher = message_id.publisher
        was_sent = self._closed[publisher] <= message_id.sequence < self._sequences[publisher]
        return message_id if was_sent and body == message_id.body else None


def _unmarked(deliveries: list[Delivery]) -> list[MessageId]:
    seen: set[MessageId] = set()
    unmarked = []
    for delivery in deliveries:
        if delivery.message_id in seen and not delivery.redelivered:
            unmarked.append(delivery.message_id)
        seen.add(delivery.message_id)
    return unmarked


def _disordered(deliveries: list[Delivery]) -> list[MessageId]:
    last: dict[tuple[int, int], int] = {}
    disordered = []
    for delivery in deliveries:
        if delivery.redelivered:
            continue
        stream = (delivery.session, delivery.message_id.publisher)
        if delivery.message_id.sequence <= last.get(stream, -1):
            disordered.append(delivery.message_id)
        last[stream] = delivery.message_id.sequence
    return disordered
