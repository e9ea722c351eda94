"""Rules: transactions end."""

from __future__ import annotations

from hypothesis.stateful import rule
from pamqp.commands import Channel, Tx

from tests.statemachine.clients import ModelChannel
from tests.statemachine.machine import anything, one_of
from tests.statemachine.publishing_rules import PublishingRules


class TransactionRules(PublishingRules):
    """What is held back happens, or does not."""

    @rule(at=anything)
    def commit(self, at: int) -> None:
        if not any(c.held or c.held_publishes for c in self.clients.channels):
            return
        channel = self._held(at)
        self.world.begin()
        if self._is_too_much(channel):
            channel.peer.client.send(Tx.Commit(), channel.number)
            close = channel.peer.expect(Channel.Close, channel.number)
            assert close.reply_code == 406
            self.world.channel_gone(channel)
            channel.peer.client.send(Channel.CloseOk(), channel.number)
        else:
            channel.peer.call(Tx.Commit(), Tx.CommitOk, channel.number)
            held, publishes = channel.held, channel.held_publishes
            channel.held, channel.held_publishes = [], []
            for names, message in publishes:
                message.is_safe = True
                there = [name for name in names if name in self.model.queues]
                for name in there:
                    self.model.publish(name, message)
                if not there:
                    self.expected.append((0, message.body, True, True))
            for outcome, deliveries in held:
                self.world.carry_out(outcome, deliveries, may_return=False)
            self.expect_confirms(channel)
        self.world.settle()

    @rule(at=anything)
    def roll_back(self, at: int) -> None:
        if not any(c.held or c.held_publishes for c in self.clients.channels):
            return
        channel = self._held(at)
        self.world.begin()
        channel.peer.call(Tx.Rollback(), Tx.RollbackOk, channel.number)
        channel.roll_back()
        self.world.settle()

    def _held(self, at: int) -> ModelChannel:
        return one_of([c for c in self.clients.channels if c.held or c.held_publishes], at)

    def _is_too_much(self, channel: ModelChannel) -> bool:
        for name, queue in self.model.queues.items():
            wanted = sum(name in names for names, _ in channel.held_publishes)
            if wanted and queue.shape.refuses:
                assert queue.shape.max_length is not None
                if len(queue.ready) + wanted > queue.shape.max_length:
                    return True
        return False
