"""Askers: who is reached, and what becomes of answers that nobody reads yet."""

from __future__ import annotations

from typing import cast

from amqp_server.broker.channel import Channel
from amqp_server.broker.consuming.direct_reply import DIRECT_REPLY_TO, DirectReplies, ReplyConsumer


class Asker:
    """What a reply consumer knows of its channel."""

    def __init__(self) -> None:
        self.is_deliverable = True
        self.delivered: list[bytes] = []

    def deliver_replies(self, consumer_tag: bytes, messages: list[bytes]) -> None:
        assert consumer_tag == b"tag"
        self.delivered += messages


def a_consumer(asker: Asker, waiting_bytes_max: int = 100) -> ReplyConsumer:
    return ReplyConsumer("tag", cast("Channel", asker), waiting_bytes_max)


def test_answers_wait_in_order_while_the_client_does_not_read() -> None:
    asker = Asker()
    consumer = a_consumer(asker)
    asker.is_deliverable = False

    assert consumer.deliver([b"1", b"2"])
    consumer.wake()
    assert asker.delivered == []
    asker.is_deliverable = True
    assert consumer.deliver([b"3"])
    consumer.wake()

    assert asker.delivered == [b"1", b"2", b"3"]
    assert consumer.deliver([b"4"])
    assert asker.delivered[3:] == [b"4"]


def test_what_passes_the_bound_is_not_taken_and_what_waits_stays() -> None:
    asker = Asker()
    consumer = a_consumer(asker, 10)
    asker.is_deliverable = False

    assert consumer.deliver([b"12345", b"12345"])
    assert not consumer.deliver([b"6"])
    asker.is_deliverable = True
    consumer.wake()

    assert asker.delivered == [b"12345", b"12345"]


def test_keys_cannot_be_told_from_each_other() -> None:
    keys = {a_consumer(Asker()).routing_key for _ in range(100)}

    assert len(keys) == 100
    assert all(key.startswith(DIRECT_REPLY_TO + ".") for key in keys)


def test_only_askers_that_are_there_are_reached_each_once() -> None:
    replies = DirectReplies()
    here, gone = Asker(), Asker()
    staying, leaving = a_consumer(here), a_consumer(gone)
    replies.add(staying)
    replies.add(leaving)
    assert replies.exists(leaving.routing_key)
    replies.remove(leaving)

    keys = (leaving.routing_key, staying.routing_key, staying.routing_key)
    assert replies.deliver(keys, [b"answer"])
    assert not replies.deliver((leaving.routing_key,), [b"answer"])

    assert here.delivered == [b"answer"]
    assert gone.delivered == []
    assert not replies.exists(leaving.routing_key)
    assert replies.exists(DIRECT_REPLY_TO)
