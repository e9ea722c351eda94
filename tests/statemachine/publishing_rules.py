"""Rules: messages are published; returns and confirms are checked."""

from __future__ import annotations

import time
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import rule
from pamqp.commands import Basic

from tests.statemachine.clients import ModelChannel
from tests.statemachine.machine import WorldMachine, anything, one_of, seldom
from tests.statemachine.model import Message
from tests.statemachine.shapes import KEYS

SHORT_SECONDS: Final = 0.15


class PublishingRules(WorldMachine):
    """What comes in."""

    @rule(
        at=anything,
        to=anything,
        times=st.integers(1, 5),
        priority=st.integers(0, 4),
        persistent=st.sampled_from((True, True, False)),
        expires=seldom,
    )
    def publish_to_queue(
        self, at: int, to: int, times: int, priority: int, persistent: bool, expires: bool
    ) -> None:
        if not (self.clients.channels and self.model.queues):
            return
        name = one_of(sorted(self.model.queues), to)
        like = Message(b"", persistent, priority, expires)
        self._publish(self.channel(at), "", name, times, like)

    @rule(
        at=anything,
        exchange=st.sampled_from(("direct", "fanout", "topic")),
        times=st.integers(1, 3),
        key=st.sampled_from(KEYS),
        priority=st.integers(0, 4),
        persistent=st.booleans(),
    )
    def publish_to_exchange(
        self, at: int, exchange: str, times: int, key: str, priority: int, persistent: bool
    ) -> None:
        if not self.clients.channels:
            return
        like = Message(b"", persistent, priority)
        self._publish(self.channel(at), exchange, key, times, like)

    def _publish(
        self, channel: ModelChannel, exchange: str, key: str, times: int, like: Message
    ) -> None:
        queues = [self.model.queues[name] for name in self.model.route(exchange, key)]
        burst = all(queue.shape.is_plain for queue in queues) and not like.expires
        self.world.begin()
        for _ in range(times):
            body = b"%d" % next(self.numbers)
            body += b" " * (len(body) * 7 % 19)
            message = Message(body, like.persistent, like.priority, like.expires)
            self._publishone_of(channel, exchange, key, message)
            if not burst:
                self.world.settle()
                self.world.begin()
        self.expect_confirms(channel)
        self.world.settle()

    def _publishone_of(
        self, channel: ModelChannel, exchange: str, key: str, message: Message
    ) -> None:
        properties = Basic.Properties(
            delivery_mode=2 if message.persistent else 1,
            priority=message.priority,
            expiration="0" if message.expires else None,
        )
        routing_key = key if exchange else self.world.name(key)
        channel.peer.client.publish(
            message.body,
            routing_key,
            self.world.name(exchange),
            properties=properties,
            mandatory=True,
            channel=channel.number,
        )
        names = self.model.route(exchange, key)
        if channel.mode == "tx":
            channel.held_publishes.append((names, message))
            return
        message.is_safe = channel.mode == "confirm"
        taken = [self.model.publish(name, message) for name in names]
        if not all(taken):
            for _, copy in self.model.all_messages():
                copy.is_safe = copy.is_safe and copy.body != message.body
        if channel.mode == "confirm":
            channel.published += 1
            self.expected.append((channel.published, message.body, all(taken), not names))
        elif not names:
            self.expected.append((0, message.body, True, True))

    def expect_confirms(self, channel: ModelChannel) -> None:
        """Check returns and confirms of what was published in one step."""
        peer = channel.peer
        if channel.mode == "confirm":
            peer.await_answers(channel.published)
        peer.round_trip()
        answered: dict[int, bool] = {}
        returned: dict[bytes, int] = {}
        last = channel.published - sum(tag > 0 for tag, *_ in self.expected)
        for number, answer in peer.events.answers:
            assert number == channel.number
            if isinstance(answer, bytes):
                returned[answer] = len(answered)
            else:
                is_ack, tag, multiple = answer
                for each in range(last + 1, tag + 1) if multiple else [tag]:
                    if each not in answered:
                        answered[each] = is_ack
        peer.events.answers.clear()
        first = last + 1
        for tag, body, is_taken, is_returned in self.expected:
            assert (body in returned) == is_returned, f"{body!r} in {returned}"
            if tag:
                assert answered[tag] == is_taken, f"{body!r}: {answered}"
                before = [each for each in answered if each >= first]
                assert not is_returned or returned[body] <= before.index(tag), "confirm first"
        assert len(returned) == sum(each[3] for each in self.expected)
        self.expected.clear()

    @rule(at=anything, name=st.sampled_from(("plain", "counted", "few-levels", "loop", "short")))
    def publish_and_hold(self, at: int, name: str) -> None:
        if not self.clients.channels:
            return
        """Let a message expire while it is unacked."""
        channel, queue = self.channel(at), self.model.queues.get(name)
        if queue is None or queue.ready or channel.mode == "tx" or self.clients.able(queue):
            return
        self.world.begin()
        body = b"%d" % next(self.numbers)
        properties = Basic.Properties(delivery_mode=2, expiration=str(int(SHORT_SECONDS * 1000)))
        channel.peer.client.publish(
            body, self.world.name(name), properties=properties, channel=channel.number
        )
        self.model.publish(name, Message(body, persistent=True, is_safe=channel.mode == "confirm"))
        if channel.mode == "confirm":
            channel.published += 1
            self.expected.append((channel.published, body, True, False))
        self.expect_confirms(channel)
        received = channel.peer.get(self.world.name(name), channel.number, no_ack=False)
        if received is not None:
            self.world.take(channel, queue, received, None, no_ack=False)
        for message in (*queue.unacked, *queue.ready):
            message.expires = message.expires or message.body == body
        time.sleep(SHORT_SECONDS)
        self.world.settle()
