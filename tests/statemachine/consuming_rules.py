"""Rules: messages are got, consumed and answered."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import rule
from pamqp.commands import Basic

from tests.statemachine.clients import Consumer, ModelChannel, Outcome
from tests.statemachine.machine import WorldMachine, anything, one_of, seldom

OUTCOMES: Final[tuple[Outcome, ...]] = ("ack", "reject", "requeue")


class ConsumingRules(WorldMachine):
    """What goes out."""

    @rule(at=anything, of=anything, no_ack=seldom, times=st.integers(1, 3))
    def get(self, at: int, of: int, no_ack: bool, times: int) -> None:
        for _ in range(times):
            self._get(at, of, no_ack)

    def _get(self, at: int, of: int, no_ack: bool) -> None:
        if not (self.clients.channels and self.model.queues):
            return
        channel = self.channel(at)
        queue = self.queue_with_messages(of)
        if queue.owner not in (None, channel.peer):
            return
        self.world.begin()
        before = list(queue.ready)
        received = channel.peer.get(
            self.world.name(queue.shape.name), channel.number, no_ack=no_ack
        )
        if received is None:
            assert not before, f"nothing came, with {before}"
        else:
            message = self.world.take(channel, queue, received, None, no_ack=no_ack)
            assert not any(queue.goes_before(left, message) for left in queue.ready)
            assert isinstance(received.method, Basic.GetOk)
            assert received.method.message_count == len(queue.ready)
        self.world.settle()

    @rule(
        at=anything,
        of=anything,
        prefetch=st.integers(0, 3),
        is_global=st.booleans(),
        no_ack=seldom,
    )
    def consume(self, at: int, of: int, prefetch: int, is_global: bool, no_ack: bool) -> None:
        if not (self.clients.channels and self.model.queues):
            return
        channel = self.channel(at)
        queue = self.queue_with_messages(of)
        if queue.owner not in (None, channel.peer) or len(channel.consumers) >= 3:
            return
        if queue.shape.delivery_limit is not None:
            is_global = False
        self.qos(channel, prefetch, is_global)
        self.world.begin()
        tag = f"c{next(self.numbers)}"
        channel.consumers[tag] = Consumer(tag, channel, queue, no_ack, channel.prefetch)
        method = Basic.Consume(0, self.world.name(queue.shape.name), tag, False, no_ack)
        channel.peer.call(method, Basic.ConsumeOk, channel.number)
        self.world.settle()

    def qos(self, channel: ModelChannel, prefetch: int, is_global: bool) -> None:
        self.world.begin()
        channel.peer.call(Basic.Qos(0, prefetch, is_global), Basic.QosOk, channel.number)
        if is_global:
            channel.prefetch_global = prefetch
        else:
            channel.prefetch, channel.prefetch_global = prefetch, 0
        self.world.settle()

    @rule(at=anything)
    def cancel(self, at: int) -> None:
        if not any(self.clients.consumers):
            return
        consumer = one_of(list(self.clients.consumers), at)
        channel = consumer.channel
        self.world.begin()
        channel.peer.call(Basic.Cancel(consumer.tag), Basic.CancelOk, channel.number)
        self.world.take_deliveries(channel.peer)
        self.world.consumer_gone(consumer)
        self.world.settle()

    @rule(
        at=anything,
        which=anything,
        multiple=st.booleans(),
        outcomes=st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=3),
    )
    def answer(self, at: int, which: int, multiple: bool, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            self._answer(at, which, multiple, outcome)

    def _answer(self, at: int, which: int, multiple: bool, outcome: Outcome) -> None:
        if not any(c.unacked for c in self.clients.channels):
            return
        channel = one_of([c for c in self.clients.channels if c.unacked], at)
        place = which % len(channel.unacked)
        tag = channel.unacked[place].tag
        if multiple and place == len(channel.unacked) - 1 and which % 2:
            tag = 0
        self.world.begin()
        taken = channel.take(place, multiple=multiple)
        self.world.answer(channel, outcome, taken)
        if outcome == "ack":
            channel.peer.client.send(Basic.Ack(tag, multiple), channel.number)
        elif multiple or which % 3:
            channel.peer.client.send(
                Basic.Nack(tag, multiple, outcome == "requeue"), channel.number
            )
        else:
            channel.peer.client.send(
                Basic.Reject(tag or taken[0].tag, outcome == "requeue"), channel.number
            )
        channel.peer.round_trip()
        self.world.settle()

    @rule(at=anything)
    def recover(self, at: int) -> None:
        if not any(c.unacked for c in self.clients.channels):
            return
        channel = one_of([c for c in self.clients.channels if c.unacked], at)
        self.world.begin()
        taken = channel.take(len(channel.unacked) - 1, multiple=True)
        self.world.carry_out("requeue", taken)
        channel.peer.call(Basic.Recover(True), Basic.RecoverOk, channel.number)
        self.world.settle()
