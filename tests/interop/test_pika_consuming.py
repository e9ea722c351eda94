"""pika: what is delivered, acknowledged, given back and limited."""

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from tests.interop.conftest import Connect
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop


class Deliveries:
    """A consumer that keeps what it gets and acknowledges nothing."""

    def __init__(self, channel: BlockingChannel, queue: str, **options: Any) -> None:  # noqa: ANN401
        self.channel = channel
        self.methods: list[Any] = []
        self.bodies: list[bytes] = []
        self.tag = channel.basic_consume(queue, self._take, **options)

    def wait_for(self, count: int) -> list[bytes]:
        """Return all bodies so far, once there are so many; more would be a fault."""
        self.channel.connection.process_data_events()
        while len(self.bodies) < count:
            self.channel.connection.process_data_events(time_limit=HANG_SECONDS)
        assert len(self.bodies) == count, self.bodies
        return self.bodies

    def settle(self) -> None:
        """Return when the server has handled, and answered, all that was sent to it before."""
        self.channel.basic_qos(prefetch_count=0, global_qos=True)
        self.channel.connection.process_data_events()

    def _take(self, _: object, method: Any, __: object, body: bytes) -> None:  # noqa: ANN401
        self.methods.append(method)
        self.bodies.append(body)


def fill(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    """Declare a queue and publish numbered messages to it."""
    channel.queue_declare(queue)
    numbered = [b"%d" % number for number in range(count)]
    for body in numbered:
        channel.basic_publish("", queue, body)
    return numbered


def take(channel: BlockingChannel, queue: str) -> list[tuple[bytes, bool]]:
    """Take everything ready: body and redelivered flag."""
    taken = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        taken.append((got[2], got[0].redelivered))
    return taken


def test_a_consumer_gets_all_in_order_with_tags_from_one(
    channel: BlockingChannel, name: str
) -> None:
    numbered = fill(channel, name, 500)
    consumer = Deliveries(channel, name)
    assert consumer.wait_for(500) == numbered
    assert [method.delivery_tag for method in consumer.methods] == list(range(1, 501))
    assert {method.consumer_tag for method in consumer.methods} == {consumer.tag}
    assert not any(method.redelivered for method in consumer.methods)
    channel.basic_ack(500, multiple=True)
    assert channel.queue_delete(name).method.message_count == 0


def test_delivery_tags_count_gets_and_deliveries_without_acknowledgement_too(
    channel: BlockingChannel, name: str
) -> None:
    fill(channel, name, 4)
    assert channel.basic_get(name, auto_ack=True)[0].delivery_tag == 1
    method, _, _ = channel.basic_get(name)
    assert (method.delivery_tag, method.message_count) == (2, 2)
    consumer = Deliveries(channel, name, auto_ack=True)
    consumer.wait_for(2)
    assert [each.delivery_tag for each in consumer.methods] == [3, 4]


@pytest.mark.parametrize("answer", ["nack", "reject", "recover", "close"])
def test_requeued_messages_return_to_their_places_marked_redelivered(
    connection: pika.BlockingConnection, name: str, answer: str
) -> None:
    channel = connection.channel()
    fill(channel, name, 6)
    tags = [channel.basic_get(name)[0].delivery_tag for _ in range(4)]
    channel.basic_ack(tags[1])
    match answer:
        case "nack":
            channel.basic_nack(tags[2])
            channel.basic_nack(0, multiple=True)
        case "reject":
            for tag in (tags[3], tags[0], tags[2]):
                channel.basic_reject(tag)
        case "recover":
            channel.basic_recover(requeue=True)
        case _:
            channel.close()
    expected = [(b"0", True), (b"2", True), (b"3", True), (b"4", False), (b"5", False)]
    assert take(connection.channel(), name) == expected


def test_a_lost_connection_gives_its_messages_back(
    channel: BlockingChannel, connect: Connect, name: str
) -> None:
    fill(channel, name, 3)
    for _ in range(10):
        leaving = connect()
        consumer = Deliveries(leaving.channel(), name)
        consumer.wait_for(3)
        leaving.close()
    assert take(channel, name) == [(b"0", True), (b"1", True), (b"2", True)]


def test_messages_rejected_without_requeue_are_gone(channel: BlockingChannel, name: str) -> None:
    fill(channel, name, 5)
    tags = [channel.basic_get(name)[0].delivery_tag for _ in range(4)]
    channel.basic_reject(tags[0], requeue=False)
    channel.basic_nack(tags[2], multiple=True, requeue=False)
    channel.basic_recover(requeue=True)
    assert take(channel, name) == [(b"3", True), (b"4", False)]


def test_acknowledging_several_leaves_the_later_ones(channel: BlockingChannel, name: str) -> None:
    fill(channel, name, 6)
    tags = [channel.basic_get(name)[0].delivery_tag for _ in range(6)]
    channel.basic_ack(tags[4])
    channel.basic_ack(tags[2], multiple=True)
    channel.basic_recover(requeue=True)
    assert take(channel, name) == [(b"3", True), (b"5", True)]


@pytest.mark.parametrize(
    ("action", "tag"),
    [
        ("ack", 0), ("ack", 2), ("ack_twice", 1), ("ack_multiple", 9),
        ("nack", 0), ("nack", 2), ("nack_multiple", 9), ("reject", 0), ("reject", 2),
    ],
)  # fmt: skip
def test_an_unknown_delivery_tag_closes_the_channel(
    connection: pika.BlockingConnection, name: str, action: str, tag: int
) -> None:
    channel = connection.channel()
    fill(channel, name, 2)
    channel.basic_get(name)
    match action:
        case "ack":
            channel.basic_ack(tag)
        case "ack_twice":
            channel.basic_ack(tag)
            channel.basic_ack(tag)
        case "ack_multiple":
            channel.basic_ack(tag, multiple=True)
        case "nack":
            channel.basic_nack(tag)
        case "nack_multiple":
            channel.basic_nack(tag, multiple=True)
        case _:
            channel.basic_reject(tag)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(name, passive=True)
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == f"PRECONDITION_FAILED - unknown delivery tag {tag}"
    left = connection.channel().queue_declare(name, passive=True).method.message_count
    assert left == (1 if action == "ack_twice" else 2)


def test_a_prefetch_limit_holds_for_each_consumer(channel: BlockingChannel, name: str) -> None:
    numbered = fill(channel, name, 10)
    channel.basic_qos(prefetch_count=2)
    first = Deliveries(channel, name)
    second = Deliveries(channel, name)
    assert sorted(first.wait_for(2) + second.wait_for(2)) == numbered[:4]
    channel.basic_ack(first.methods[0].delivery_tag)
    assert first.wait_for(3)[-1] == numbered[4]
    channel.basic_ack(first.methods[-1].delivery_tag, multiple=True)
    assert len(first.wait_for(5) + second.wait_for(len(second.bodies))) >= 7


def test_consumers_of_one_channel_have_the_limits_they_began_with(
    channel: BlockingChannel, name: str
) -> None:
    numbered = fill(channel, name, 10)
    channel.basic_qos(prefetch_count=1)
    first = Deliveries(channel, name)
    assert first.wait_for(1) == numbered[:1]
    channel.basic_qos(prefetch_count=4)
    second = Deliveries(channel, name)
    assert second.wait_for(4) == numbered[1:5]
    assert first.bodies == numbered[:1]
    channel.basic_ack(first.methods[0].delivery_tag)
    assert first.wait_for(2)[-1] == numbered[5]


def test_a_global_prefetch_limit_is_shared_by_the_channel(
    connection: pika.BlockingConnection, name: str
) -> None:
    channel = connection.channel()
    fill(channel, name, 12)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, second = Deliveries(channel, name), Deliveries(channel, name)
    while len(first.bodies) + len(second.bodies) < 3:
        connection.process_data_events(time_limit=HANG_SECONDS)
    other = Deliveries(connection.channel(), name)
    # The other channel has no limit: once it has the rest, everything there is was handed out.
    other.wait_for(9)
    assert len(first.bodies) + len(second.bodies) == 3


def test_several_consumers_get_an_equal_share(
    connection: pika.BlockingConnection, name: str
) -> None:
    connection.channel().queue_declare(name)
    consumers = [Deliveries(connection.channel(), name) for _ in range(3)]
    fill(connection.channel(), name, 30)
    while sum(len(consumer.bodies) for consumer in consumers) < 30:
        connection.process_data_events(time_limit=HANG_SECONDS)
    assert min(len(consumer.bodies) for consumer in consumers) > 0


def test_nothing_is_delivered_after_cancel_ok_and_unacked_messages_stay(
    channel: BlockingChannel, name: str
) -> None:
    fill(channel, name, 4)
    channel.basic_qos(prefetch_count=2)
    consumer = Deliveries(channel, name)
    consumer.wait_for(2)
    channel.basic_ack(1)
    consumer.wait_for(3)
    assert channel.queue_declare(name, passive=True).method.message_count == 1
    channel.basic_cancel(consumer.tag)
    channel.basic_ack(2)
    assert channel.queue_purge(name).method.message_count == 1
    fill(channel, name, 1)
    assert consumer.wait_for(3) == [b"0", b"1", b"2"]
    channel.basic_recover(requeue=True)
    assert take(channel, name) == [(b"2", True), (b"0", False)]


def test_a_consumer_is_told_when_its_queue_is_deleted(
    connection: pika.BlockingConnection, name: str
) -> None:
    channel = connection.channel()
    fill(channel, name, 1)
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    consumer = Deliveries(channel, name)
    consumer.wait_for(1)
    connection.channel().queue_delete(name)
    while not cancelled:
        connection.process_data_events(time_limit=HANG_SECONDS)
    assert cancelled == [consumer.tag]
    assert channel.is_open
    channel.basic_ack(consumer.methods[0].delivery_tag)
    channel.queue_declare(name)
    assert take(channel, name) == []


def test_a_generator_of_messages_ends_when_its_queue_is_deleted(
    connection: pika.BlockingConnection, name: str
) -> None:
    channel = connection.channel()
    fill(channel, name, 3)
    seen = []
    for method, _, body in channel.consume(name, inactivity_timeout=HANG_SECONDS):
        assert method is not None
        seen.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(seen) == 3:
            connection.channel().queue_delete(name)
    assert seen == [b"0", b"1", b"2"]


def test_an_exclusive_consumer_keeps_others_out_and_comes_only_alone(
    connection: pika.BlockingConnection, name: str
) -> None:
    channel = connection.channel()
    channel.queue_declare(name)
    tag = channel.basic_consume(name, lambda *_: None, exclusive=True)
    for exclusive in (False, True):
        with pytest.raises(ChannelClosedByBroker) as caught:
            connection.channel().basic_consume(name, lambda *_: None, exclusive=exclusive)
        assert caught.value.reply_code == 403
        assert (
            caught.value.reply_text
            == f"ACCESS_REFUSED - queue '{name}' in vhost '/' in exclusive use"
        )
    channel.basic_cancel(tag)
    channel.basic_consume(name, lambda *_: None)
    with pytest.raises(ChannelClosedByBroker):
        connection.channel().basic_consume(name, lambda *_: None, exclusive=True)


@pytest.mark.parametrize(
    ("action", "options", "text"),
    [
        ("basic_recover", {"requeue": False}, "NOT_IMPLEMENTED - requeue=false"),
        ("basic_qos", {"prefetch_size": 1}, "NOT_IMPLEMENTED - prefetch_size!=0 (1)"),
    ],
)
def test_what_is_not_implemented_ends_the_connection(
    channel: BlockingChannel, action: str, options: dict[str, int], text: str
) -> None:
    with pytest.raises(ConnectionClosedByBroker) as caught:
        getattr(channel, action)(**options)
    assert (caught.value.reply_code, caught.value.reply_text) == (540, text)
