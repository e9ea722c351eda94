"""What all rules share: the world, and how they choose something of what is there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine
from pamqp.commands import Confirm, Tx

from tests.statemachine.clients import Clients, Mode, ModelChannel
from tests.statemachine.model import Model, ModelQueue
from tests.statemachine.peer import Peer
from tests.statemachine.world import World

ThingT = TypeVar("ThingT")
MODES: Final[tuple[Mode, ...]] = ("plain", "confirm", "confirm", "tx")
anything = st.integers(0, 1000)
"""Chooses one of what is there: the remainder counts."""
seldom = st.integers(0, 5).map(lambda number: number == 5)
"""For what ends things, or takes long."""


class WorldMachine(RuleBasedStateMachine):
    """A machine with a world.

    No rule has a precondition: what is there depends on what the broker chose, and Hypothesis
    wants the same rules to be possible when it repeats a run. What is not possible does nothing.

    Attributes:
        world: The broker and its model.
        model: The same model.
        clients: Of the world.
        numbers: For bodies and names.
        expected: Publishes of this step: tag or 0, body, whether it is taken, whether it is
            returned.
    """

    world: World
    model: Model
    clients: Clients

    def __init__(self) -> None:
        super().__init__()
        self.expected: list[tuple[int, bytes, bool, bool]] = []
        self.numbers = count()

    @property
    def has_news(self) -> bool:
        """Whether a restart has something to bring back, and is worth its time."""
        return any(True for _ in self.model.all_messages())

    def open(self, peer: Peer, number: int, mode: Mode) -> None:
        peer.client.open_channel(number)
        if mode == "confirm":
            peer.call(Confirm.Select(), Confirm.SelectOk, number)
        elif mode == "tx":
            peer.call(Tx.Select(), Tx.SelectOk, number)
        self.clients.channels.append(ModelChannel(peer, number, mode))

    def channel(self, at: int) -> ModelChannel:
        return one_of(self.clients.channels, at)

    def queue(self, at: int) -> ModelQueue:
        return self.model.queues[one_of(sorted(self.model.queues), at)]

    def queue_with_messages(self, at: int) -> ModelQueue:
        """Return a queue to take from: one that has something, if there is one."""
        queues = [self.model.queues[name] for name in sorted(self.model.queues)]
        return one_of([queue for queue in queues if queue.ready] or queues, at)


def one_of(things: Sequence[ThingT], at: int) -> ThingT:
    """Return the thing that a number chooses; there is at least one."""
    return things[at % len(things)]
