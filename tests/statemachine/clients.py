"""What the connections of a machine run have open: channels, consumers, unanswered deliveries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from tests.statemachine.model import Message, ModelQueue
from tests.statemachine.peer import Peer

Mode = Literal["plain", "confirm", "tx"]
Outcome = Literal["ack", "reject", "requeue"]


@dataclass(slots=True, eq=False)
class Consumer:
    """One consumer.

    Attributes:
        tag: Its tag.
        channel: Its channel.
        queue: What it takes from.
        no_ack: As asked for.
        prefetch: Limit of its channel when it began; 0 is no limit.
    """

    tag: str
    channel: ModelChannel
    queue: ModelQueue
    no_ack: bool
    prefetch: int

    @property
    def credit(self) -> float:
        """How many more messages it may be given."""
        channel = self.channel
        if self.no_ack:
            # It uses none of the channel's limit, but a channel that has reached it gets nothing.
            is_full = 0 < channel.prefetch_global <= len(channel.counted)
            return 0 if is_full else math.inf
        credit = math.inf
        if self.prefetch:
            credit = self.prefetch - sum(each.consumer is self for each in channel.counted)
        if channel.prefetch_global:
            credit = min(credit, channel.prefetch_global - len(channel.counted))
        return credit


@dataclass(slots=True, eq=False)
class Delivery:
    """One delivery that was not answered, or whose answer is not committed."""

    tag: int
    queue: ModelQueue
    message: Message
    consumer: Consumer | None


@dataclass(slots=True, eq=False)
class ModelChannel:
    """One open channel.

    Attributes:
        peer: Its connection.
        number: Its number.
        mode: Without confirms, with them, or transactional.
        prefetch: Of each consumer that begins; 0 is no limit.
        prefetch_global: Of the channel; 0 is no limit.
        published: Messages published with confirms.
        last_tag: The last delivery tag.
        unacked: In order of their tags.
        held: Answers of a transaction.
        held_publishes: Queues and message of each publish of a transaction.
        consumers: By tag.
    """

    peer: Peer
    number: int
    mode: Mode
    prefetch: int = 0
    prefetch_global: int = 0
    published: int = 0
    last_tag: int = 0
    unacked: list[Delivery] = field(default_factory=list)
    held: list[tuple[Outcome, list[Delivery]]] = field(default_factory=list)
    held_publishes: list[tuple[list[str], Message]] = field(default_factory=list)
    consumers: dict[str, Consumer] = field(default_factory=dict)

    @property
    def counted(self) -> list[Delivery]:
        """What counts toward prefetch limits: not what was got."""
        return [each for each in self.outstanding if each.consumer is not None]

    @property
    def outstanding(self) -> list[Delivery]:
        """What was delivered, and neither answered nor committed."""
        return [*self.unacked, *(each for _, held in self.held for each in held)]

    def take(self, at: int, *, multiple: bool) -> list[Delivery]:
        """Remove and return the delivery at this place, or all up to it."""
        first = 0 if multiple else at
        taken = self.unacked[first : at + 1]
        del self.unacked[first : at + 1]
        return taken

    def roll_back(self) -> None:
        """Forget what was held back."""
        self.unacked = sorted(self.outstanding, key=lambda each: each.tag)
        self.held.clear()
        self.held_publishes.clear()


class Clients:
    """All connections and channels of a run."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.channels: list[ModelChannel] = []

    @property
    def consumers(self) -> Iterator[Consumer]:
        """All consumers."""
        for channel in self.channels:
            yield from channel.consumers.values()

    def channel(self, peer: Peer, number: int) -> ModelChannel:
        """Return an open channel."""
        return next(c for c in self.channels if c.peer is peer and c.number == number)

    def of(self, peer: Peer) -> list[ModelChannel]:
        """Return the channels of a connection."""
        return [channel for channel in self.channels if channel.peer is peer]

    def able(self, queue: ModelQueue) -> bool:
        """Return whether a message of the queue could be delivered now."""
        return any(c.queue is queue and c.credit >= 1 for c in self.consumers)
