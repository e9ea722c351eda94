"""x-max-length and x-max-length-bytes: a full queue drops or refuses messages (x-overflow)."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import PERSISTENT, AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import drain
from tests.conformance.polling import eventually
from tests.conformance.queues import Arguments, await_ready_count, publish_all, reject, take

TYPES = pytest.mark.parametrize("queue_type", ["classic", "quorum"])
REJECTING = pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])


def verdict(client: AmqpClient) -> type[Basic.Ack | Basic.Nack]:
    """Return the kind of the next confirm, which is for one publish."""
    _, answer = client.receive()
    assert isinstance(answer, Basic.Ack | Basic.Nack)
    return type(answer)


def try_publish(client: AmqpClient, queue: str, body: bytes = b"x") -> type[Basic.Ack | Basic.Nack]:
    client.publish(body, queue)
    return verdict(client)


# Drop the head


@TYPES
@pytest.mark.parametrize("overflow", [{}, {"x-overflow": "drop-head"}], ids=["default", "named"])
def test_a_full_queue_drops_the_oldest(
    connect: Connect, name: str, queue_type: str, overflow: Arguments
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments=overflow | {"x-queue-type": queue_type, "x-max-length": 3})
    publish_all(client, name, b"1", b"2", b"3", b"4", b"5")
    await_ready_count(client, name, 3)
    assert drain(client, name) == [b"3", b"4", b"5"]


def test_a_queue_of_length_zero_keeps_nothing(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": 0})
    publish_all(client, name, b"1", b"2")
    assert client.ready_count(name) == 0


def test_a_queue_of_length_zero_delivers_to_a_consumer_that_waits(
    client: AmqpClient, name: str
) -> None:
    client.declare(name, arguments={"x-max-length": 0})
    client.consume(name)
    client.publish(b"1", name)
    assert client.expect_delivery().body == b"1"


def test_a_limit_counts_ready_messages_only(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": 2})
    publish_all(client, name, b"1", b"2")
    unacked = [take(client, name, no_ack=False) for _ in range(2)]
    publish_all(client, name, b"3", b"4")
    assert client.ready_count(name) == 2
    for message in unacked:
        client.send(Basic.Ack(message.tag))
    assert drain(client, name) == [b"3", b"4"]


def test_messages_requeued_into_a_full_queue_are_its_oldest(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": 2})
    publish_all(client, name, b"1", b"2")
    first = take(client, name, no_ack=False)
    publish_all(client, name, b"3")
    reject(client, first, requeue=True)
    await_ready_count(client, name, 2)
    assert drain(client, name) == [b"2", b"3"]


def test_messages_requeued_into_a_full_queue_with_reject_publish_are_kept(
    connect: Connect, name: str
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    publish_all(client, name, b"1")
    message = take(client, name, no_ack=False)
    publish_all(client, name, b"2")
    reject(client, message, requeue=True)
    await_ready_count(client, name, 2)
    assert try_publish(client, name) is Basic.Nack
    assert drain(client, name) == [b"1", b"2"]


def test_a_limit_of_octets_counts_bodies(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length-bytes": 25})
    publish_all(client, name, b"1" * 10, b"2" * 10, b"3" * 10, b"4" * 5, b"")
    assert drain(client, name) == [b"2" * 10, b"3" * 10, b"4" * 5, b""]


def test_a_message_larger_than_the_limit_of_octets_is_not_kept(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length-bytes": 25})
    publish_all(client, name, b"1", b"2" * 26)
    assert client.ready_count(name) == 0
    publish_all(client, name, b"3" * 25)
    assert drain(client, name) == [b"3" * 25]


def test_of_two_limits_the_one_that_is_reached_decides(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": 3, "x-max-length-bytes": 10})
    publish_all(client, name, b"1", b"2", b"3", b"4")
    assert client.ready_count(name) == 3
    publish_all(client, name, b"5" * 9)
    assert drain(client, name) == [b"4", b"5" * 9]


def test_the_head_of_a_queue_with_priorities_is_the_next_message_to_deliver(
    connect: Connect, name: str
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": 2, "x-max-priority": 5})
    for body, priority in ((b"high", 5), (b"low", 1), (b"middle", 3)):
        publish_all(client, name, body, properties=Basic.Properties(priority=priority))
    assert drain(client, name) == [b"middle", b"low"]


# Refuse what is new


@REJECTING
def test_a_full_queue_refuses_new_messages(connect: Connect, name: str, overflow: str) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": 2, "x-overflow": overflow})
    verdicts = [try_publish(client, name, body) for body in (b"1", b"2", b"3", b"4")]
    assert verdicts == [Basic.Ack, Basic.Ack, Basic.Nack, Basic.Nack]
    assert drain(client, name) == [b"1", b"2"]


@REJECTING
def test_requeued_messages_stay_although_the_queue_is_full(
    connect: Connect, name: str, overflow: str
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": 1, "x-overflow": overflow})
    publish_all(client, name, b"1")
    first = take(client, name, no_ack=False)
    publish_all(client, name, b"2")
    reject(client, first, requeue=True)
    await_ready_count(client, name, 2)
    assert try_publish(client, name) is Basic.Nack
    assert drain(client, name) == [b"1", b"2"]


@REJECTING
def test_a_queue_at_its_limit_of_octets_refuses_new_messages(
    connect: Connect, name: str, overflow: str
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length-bytes": 25, "x-overflow": overflow})
    verdicts = [try_publish(client, name, b"x" * size) for size in (10, 10, 10, 5, 1)]
    assert verdicts == [Basic.Ack, Basic.Ack, Basic.Nack, Basic.Ack, Basic.Nack]


def test_a_full_queue_takes_new_messages_again_when_it_has_room(
    connect: Connect, name: str
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    assert try_publish(client, name) is Basic.Ack
    assert try_publish(client, name) is Basic.Nack
    client.get(name, no_ack=False)
    assert try_publish(client, name) is Basic.Ack


def test_a_full_quorum_queue_refuses_new_messages(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    arguments = {"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"}
    client.declare(name, arguments=arguments)
    # How many more than the limit RabbitMQ takes depends on its timing.
    eventually(lambda: try_publish(client, name) is Basic.Nack)
    assert try_publish(client, name) is Basic.Nack


def test_without_confirms_refused_messages_are_lost(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for body in (b"1", b"2", b"3"):
        client.publish(body, name, mandatory=True)
    await_ready_count(client, name, 1)
    assert drain(client, name) == [b"1"]


def test_a_refused_message_is_not_returned(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    client.publish(b"x", name, mandatory=True)
    assert client.expect(Basic.Nack).delivery_tag == 1
    assert client.ready_count(name) == 0


def test_one_queue_that_refuses_is_enough_for_a_nack(connect: Connect, new_name: NewName) -> None:
    client = connect(confirms=True)
    full, free, exchange = new_name(), new_name(), new_name()
    client.declare(full, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    client.declare(free)
    declare = Exchange.Declare(exchange=exchange, exchange_type="fanout")
    client.call(declare, Exchange.DeclareOk)
    for queue in (full, free):
        client.call(Queue.Bind(queue=queue, exchange=exchange), Queue.BindOk)
    client.publish(b"x", "", exchange)
    assert verdict(client) is Basic.Nack
    await_ready_count(client, free, 1)


def test_refused_messages_get_a_nack_and_taken_ones_an_ack(
    connect: Connect, new_name: NewName
) -> None:
    client = connect(confirms=True)
    full, free = new_name(), new_name()
    client.declare(full, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    client.declare(free)
    for queue in (free, full) * 20:
        client.publish(b"x", queue)
    confirmed: dict[int, type[Basic.Ack | Basic.Nack]] = {}
    while len(confirmed) < 40:
        _, answer = client.receive()
        assert isinstance(answer, Basic.Ack | Basic.Nack)
        assert answer.delivery_tag is not None
        first = 1 if answer.multiple else answer.delivery_tag
        for tag in range(first, answer.delivery_tag + 1):
            confirmed.setdefault(tag, type(answer))
    assert {tag for tag, kind in confirmed.items() if kind is Basic.Nack} == set(range(2, 41, 2))


def test_a_queue_of_length_zero_refuses_even_with_a_consumer_that_waits(
    connect: Connect, name: str
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    connect().consume(name)
    assert try_publish(client, name) is Basic.Nack


def test_a_refused_message_becomes_a_dead_letter_only_with_its_own_overflow(
    connect: Connect, new_name: NewName
) -> None:
    client = connect(confirms=True)
    dead_letters, plain, lettered = new_name(), new_name(), new_name()
    client.declare(dead_letters)
    for queue, overflow in ((plain, "reject-publish"), (lettered, "reject-publish-dlx")):
        arguments = {
            "x-max-length": 0,
            "x-overflow": overflow,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": dead_letters,
        }
        client.declare(queue, arguments=arguments)
    assert try_publish(client, plain, b"gone") is Basic.Nack
    assert try_publish(client, lettered, b"kept") is Basic.Nack
    message = take(client, dead_letters)
    assert message.body == b"kept"
    assert message.properties.headers is not None
    assert message.properties.headers["x-first-death-reason"] == "maxlen"
    assert client.get(dead_letters) is None


# Bursts


BURST = 2_000
LIMIT = 50


def consume_in_background(client: AmqpClient, queue: str) -> list[bytes]:
    """Take what comes until the body `end`, acknowledging each; return the rest."""
    client.consume(queue, prefetch=10)
    bodies: list[bytes] = []
    while (message := client.expect_delivery()).body != b"end":
        bodies.append(message.body)
        client.send(Basic.Ack(message.tag))
    client.send(Basic.Ack(message.tag))
    return bodies


def test_the_confirmed_messages_of_a_burst_are_delivered_and_no_others(
    connect: Connect, name: str
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": LIMIT, "x-overflow": "reject-publish"})
    consumer = connect()
    with ThreadPoolExecutor(1) as pool:
        consumed = pool.submit(consume_in_background, consumer, name)
        for number in range(BURST):
            client.publish(str(number).encode(), name)
        nacked: set[int] = set()
        acked: set[int] = set()
        while len(nacked) + len(acked) < BURST:
            _, answer = client.receive()
            assert isinstance(answer, Basic.Ack | Basic.Nack)
            last = answer.delivery_tag or 0
            tags = set(range(1, last + 1)) - nacked - acked if answer.multiple else {last}
            (acked if isinstance(answer, Basic.Ack) else nacked).update(tags)
        eventually(lambda: try_publish(client, name, b"end") is Basic.Ack)
        assert consumed.result() == [str(tag - 1).encode() for tag in sorted(acked)]


@TYPES
def test_each_publish_of_a_burst_gets_one_answer_and_those_with_an_ack_are_in_the_queue(
    connect: Connect, name: str, queue_type: str
) -> None:
    client, other = connect(confirms=True), connect()
    arguments = {"x-max-length": LIMIT, "x-overflow": "reject-publish"}
    client.declare(name, arguments=arguments | {"x-queue-type": queue_type})
    octets = [
        client.publish_octets(Basic.Publish(routing_key=name), b"%d" % tag, PERSISTENT)
        for tag in range(1, BURST + 1)
    ]
    # In pieces, so that some answers are on their way while others are published.
    for at in range(0, BURST, 100):
        client.send_raw(b"".join(octets[at : at + 100]))
    answers: dict[int, type[Basic.Ack | Basic.Nack]] = {}
    while len(answers) < BURST:
        _, answer = client.receive()
        assert isinstance(answer, Basic.Ack | Basic.Nack)
        assert answer.delivery_tag is not None
        tags = range(1, answer.delivery_tag + 1) if answer.multiple else [answer.delivery_tag]
        fresh = [tag for tag in tags if tag not in answers]
        assert answer.multiple or fresh, f"a second answer for {tags}"
        answers.update(dict.fromkeys(fresh, type(answer)))
    # No other answer comes: the next frame is that of the queue.
    kept = client.ready_count(name)
    acked = [tag for tag, kind in answers.items() if kind is Basic.Ack]
    assert len(acked) == kept
    assert drain(other, name) == [b"%d" % tag for tag in sorted(acked)]
    assert sorted(answers) == list(range(1, BURST + 1))
    if queue_type == "classic":
        assert sorted(acked) == list(range(1, LIMIT + 1))


def test_every_message_of_a_burst_is_consumed_or_a_dead_letter(
    connect: Connect, new_name: NewName
) -> None:
    client = connect(confirms=True)
    queue, dead_letters = new_name(), new_name()
    client.declare(dead_letters)
    arguments = {
        "x-max-length": LIMIT,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead_letters,
    }
    client.declare(queue, arguments=arguments)
    consumer = connect()
    with ThreadPoolExecutor(1) as pool:
        consumed = pool.submit(consume_in_background, consumer, queue)
        publish_all(client, queue, *(str(number).encode() for number in range(BURST)), b"end")
        kept = consumed.result()
    await_ready_count(client, dead_letters, BURST - len(kept))
    dropped = drain(client, dead_letters)
    assert sorted(kept, key=int) == kept
    assert sorted(dropped, key=int) == dropped
    assert sorted(map(int, kept + dropped)) == list(range(BURST))
