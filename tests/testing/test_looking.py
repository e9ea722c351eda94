"""What a test sees of the broker: queues, published messages, waits and their failures."""

import asyncio
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import aio_pika
import pika
import pytest

from amqp_server.testing import Broker, BrokerStateError, NoSuchQueueError, VirtualHost
from amqp_server.testing.publish_record import BYTES_MAX, MESSAGES_MAX
from tests.limits import HANG_SECONDS
from tests.testing.test_broker import PERSISTENT, channel


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def vhost(broker: Broker) -> Iterator[VirtualHost]:
    with broker.new_vhost() as created:
        yield created


def publish(
    vhost: VirtualHost | Broker,
    queue: str,
    *bodies: object,
    exchange: str = "",
    headers: dict[str, Any] | None = None,
) -> None:
    with channel(vhost.url) as opened:
        opened.queue_declare(queue, durable=True)
        for body in bodies:
            properties = pika.BasicProperties(delivery_mode=2, headers=headers)
            opened.basic_publish(exchange, queue, json.dumps(body).encode(), properties)


def test_a_queue_shows_its_counts_and_messages_and_keeps_them(vhost: VirtualHost) -> None:
    publish(vhost, "orders", {"n": 1}, {"n": 2}, {"n": 3}, headers={"kind": "new"})
    with channel(vhost.url) as opened:
        tag = opened.basic_get("orders")[0].delivery_tag
        opened.basic_get("orders")
        opened.basic_ack(tag)
        queue = vhost.queue("orders")
        queue.wait_for(2)
        assert (queue.ready, queue.unacked, queue.published) == (1, 1, 3)
        found = queue.messages()
        assert [(each.json(), each.state) for each in found] == [
            ({"n": 2}, "unacked"),
            ({"n": 3}, "ready"),
        ]
        assert found[0].headers == {"kind": "new"}
        assert (found[0].exchange, found[0].routing_key) == ("", "orders")
        assert found[0].properties.delivery_mode == 2
        assert queue.messages(limit=1) == found[:1]


def test_messages_are_shown_as_soon_as_they_are_counted(vhost: VirtualHost) -> None:
    with pika.BlockingConnection(pika.URLParameters(vhost.url)) as connection:
        opened = connection.channel()
        opened.queue_declare("orders", durable=True)
        queue = vhost.queue("orders")
        for number in range(1, 21):
            opened.basic_publish("", "orders", b"x", PERSISTENT if number % 2 else None)
            queue.wait_for(number)
            assert len(queue.messages()) == number


def test_messages_of_a_transient_queue_are_shown_too(vhost: VirtualHost) -> None:
    with channel(vhost.url) as opened:
        opened.queue_declare("orders")
        for number in range(1500):
            opened.basic_publish("", "orders", b"%d" % number)
        bodies = [each.body for each in vhost.queue("orders").messages(limit=2000)]
        assert bodies == [b"%d" % number for number in range(1500)]


def test_a_missing_queue_is_an_error_that_names_those_that_there_are(vhost: VirtualHost) -> None:
    with pytest.raises(NoSuchQueueError, match="no queue 'order'; the virtual host has: none"):
        vhost.queue("order").messages()
    publish(vhost, "orders")
    with pytest.raises(NoSuchQueueError, match=r"no queue 'order'; .* has: 'orders'"):
        _ = vhost.queue("order").ready


def test_a_wait_ends_when_a_consumer_has_acknowledged_all(vhost: VirtualHost) -> None:
    queue = vhost.queue("orders")
    worker = threading.Thread(target=consume, args=(vhost.url, 3))
    publish(vhost, "orders", 1, 2, 3)
    worker.start()
    queue.wait_empty()
    assert (queue.ready, queue.unacked, queue.published) == (0, 0, 3)
    worker.join()


def consume(url: str, count: int) -> None:
    with channel(url) as opened:
        for method, _, _ in opened.consume("orders"):
            opened.basic_ack(method.delivery_tag)
            count -= 1
            if not count:
                break


def test_a_wait_for_a_queue_that_is_declared_later_ends(vhost: VirtualHost) -> None:
    publisher = threading.Thread(target=publish, args=(vhost, "orders", 1, 2))
    publisher.start()
    vhost.queue("orders").wait_for(2)
    publisher.join()


def test_a_wait_that_is_too_long_shows_who_has_the_messages(vhost: VirtualHost) -> None:
    publish(vhost, "orders", 1, 2)
    with channel(vhost.url) as opened:
        opened.basic_get("orders")
        with pytest.raises(AssertionError) as failure:
            vhost.queue("orders").wait_empty(0.01)
        with pytest.raises(AssertionError, match=r"'other' does not hold 1 messages after 0\.01 s"):
            vhost.queue("other").wait_for(1, 0.01)
    lines = str(failure.value).splitlines()
    assert lines[0] == "queue 'orders' is not empty after 0.01 s"
    assert "  orders: 1 ready, 1 unacked, 2 published, consumers: 0" in lines
    assert lines[-1].endswith(": open channels: 1, 1 unacked of 'orders'")


async def test_an_asyncio_test_waits_while_its_own_consumer_works(vhost: VirtualHost) -> None:
    async with await aio_pika.connect(vhost.url) as connection:
        opened = await connection.channel()
        declared = await opened.declare_queue("orders")

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            await asyncio.sleep(0)
            await message.ack()

        for _ in range(3):
            await opened.default_exchange.publish(aio_pika.Message(b"x"), "orders")
        queue = vhost.queue("orders")
        await queue.until_holds(3)
        await declared.consume(take)
        await queue.until_empty()
        with pytest.raises(AssertionError, match="does not hold 1"):
            await queue.until_holds(1, 0.01)


# What was published


def test_published_messages_are_remembered_with_where_they_went(vhost: VirtualHost) -> None:
    with channel(vhost.url) as opened:
        opened.exchange_declare("events", "topic")
        for name in ("all", "orders"):
            opened.queue_declare(name)
        opened.queue_bind("all", "events", "#")
        opened.queue_bind("orders", "events", "order.*")
        opened.basic_publish("events", "order.new", b"1")
        opened.basic_publish("events", "user.new", b"2")
        opened.queue_purge("all")
        opened.queue_unbind("all", "events", "#")
        opened.basic_publish("events", "user.gone", b"3")
        opened.basic_publish("", "missing", b"4")
    found = vhost.published()
    assert [(each.routing_key, each.body, set(each.queues)) for each in found] == [
        ("order.new", b"1", {"all", "orders"}),
        ("user.new", b"2", {"all"}),
        ("user.gone", b"3", set()),
        ("missing", b"4", set()),
    ]
    assert [each.is_unroutable for each in found] == [False, False, True, True]
    assert vhost.published("orders") == found[:1]
    assert vhost.published(exchange="events") == found[:3]
    assert vhost.published(exchange="") == found[3:]
    assert vhost.published("all", routing_key="user.new") == found[1:2]


def test_publishes_that_arrive_together_are_all_remembered(vhost: VirtualHost) -> None:
    """Messages that alternate between queues are handled together in a server."""
    with pika.BlockingConnection(pika.URLParameters(vhost.url)) as connection:
        opened = connection.channel()
        for name in ("a", "b"):
            opened.queue_declare(name)
        for number in range(1000):
            opened.basic_publish("", "ab"[number % 2], b"%d" % number)
        opened.queue_declare("a", passive=True)
    assert [(each.queues, each.body) for each in vhost.published()] == [
        (("ab"[number % 2],), b"%d" % number) for number in range(1000)
    ]


def test_a_transaction_is_remembered_when_it_is_committed(vhost: VirtualHost) -> None:
    with pika.BlockingConnection(pika.URLParameters(vhost.url)) as connection:
        opened = connection.channel()
        opened.queue_declare("orders", durable=True)
        opened.tx_select()
        opened.basic_publish("", "orders", b"rolled back", PERSISTENT)
        opened.tx_rollback()
        opened.basic_publish("", "orders", b"committed", PERSISTENT)
        opened.basic_publish("", "missing", b"unroutable")
        assert vhost.published() == []
        opened.tx_commit()
    assert [(each.body, each.queues) for each in vhost.published()] == [
        (b"committed", ("orders",)),
        (b"unroutable", ()),
    ]


def test_a_large_message_and_a_fanout_to_many_queues_are_remembered(vhost: VirtualHost) -> None:
    with channel(vhost.url) as opened:
        opened.exchange_declare("all", "fanout")
        names = {f"q{number}" for number in range(70)}
        for name in names:
            opened.queue_declare(name)
            opened.queue_bind(name, "all")
        opened.basic_publish("all", "", b"x" * 300_000)
    (found,) = vhost.published()
    assert set(found.queues) == names
    assert found.body == b"x" * 300_000


def test_virtual_hosts_and_restarts_keep_records_apart_and_whole() -> None:
    with Broker() as broker, broker.new_vhost() as vhost:
        publish(vhost, "orders", 1)
        publish(broker, "orders", 2)
        broker.restart()
        publish(vhost, "orders", 3)
        publish(broker, "orders", 4)
        assert [each.json() for each in vhost.published()] == [1, 3]
        assert [each.json() for each in broker.published("orders")] == [2, 4]
        assert [each.json() for each in broker.queue("orders").messages()] == [2, 4]
        assert broker.assert_published("orders", json=4).state == ""
        assert "orders: 2 ready" in str(broker.view())


def test_a_virtual_host_of_a_name_that_was_deleted_begins_without_a_record(broker: Broker) -> None:
    with broker.new_vhost("again") as vhost:
        publish(vhost, "orders", 1)
        assert len(vhost.published()) == 1
    with broker.new_vhost("again") as vhost:
        assert vhost.published() == []


def test_the_record_is_bounded() -> None:
    with Broker() as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            opened = connection.channel()
            for number in range(MESSAGES_MAX + 5):
                opened.basic_publish("", "missing", b"%d" % number)
            opened.queue_declare("end")
        found = broker.published()
        assert (len(found), found[0].body) == (MESSAGES_MAX, b"5")
        last = found[-1]
        assert broker.assert_published(body=b"%d" % (MESSAGES_MAX + 4)) == last
        with channel(broker.url) as opened:
            for _ in range(3):
                opened.basic_publish("", "missing", bytes(8 << 20))
        assert [len(each.body) for each in broker.published()] == [8 << 20]


def test_an_expected_message_is_returned(vhost: VirtualHost) -> None:
    publish(vhost, "orders", {"id": 1, "total": 10}, headers={"kind": "new", "tries": 1})
    publish(vhost, "orders", {"id": 2}, None)
    found = vhost.assert_published("orders", json={"total": 10, "id": 1}, headers={"kind": "new"})
    assert found.headers == {"kind": "new", "tries": 1}
    assert vhost.assert_published("orders", json=None).body == b"null"
    assert vhost.assert_published(body=b'{"id": 2}', exchange="", routing_key="orders").queues
    assert vhost.assert_published() == found


def test_an_expected_message_may_still_be_on_its_way(vhost: VirtualHost) -> None:
    later = threading.Timer(0.05, publish, (vhost, "orders", {"id": 1}))
    later.start()
    vhost.assert_published("orders", json={"id": 1}, seconds_max=HANG_SECONDS)
    later.join()


def test_a_missing_message_is_explained_by_the_closest_one(vhost: VirtualHost) -> None:
    publish(vhost, "orders", "something else")
    publish(vhost, "orders", {"id": 1, "total": 12}, headers={"kind": "old"})
    with pytest.raises(AssertionError) as failure:
        vhost.assert_published(
            "orders",
            json={"id": 1, "total": 10},
            headers={"kind": "new", "trace": "x"},
            seconds_max=0,
        )
    assert str(failure.value).splitlines() == [
        "2 published to queue 'orders', none as expected; the closest of them differs:",
        "--- expected",
        "+++ published",
        "@@ -1,6 +1,6 @@",
        "-header kind: 'new'",
        "-header trace: 'x'",
        "+header kind: 'old'",
        "+header trace is missing",
        " {",
        '   "id": 1,',
        '-  "total": 10',
        '+  "total": 12',
        " }",
    ]
    with pytest.raises(AssertionError, match="no message was published to queue 'other', exchange"):
        vhost.assert_published("other", exchange="events", seconds_max=0)


def test_a_body_that_is_no_json_is_shown(vhost: VirtualHost) -> None:
    with channel(vhost.url) as opened:
        opened.basic_publish("", "missing", b"\xff\x00")
    with pytest.raises(AssertionError, match=r"\+no JSON: b'\\xff\\x00'"):
        vhost.assert_published(routing_key="missing", json=1, seconds_max=0)
    with pytest.raises(AssertionError, match=r"the message differs:\n(.*\n)*\+b'\\xff"):
        vhost.assert_published(routing_key="missing", body=b"x", seconds_max=0)


def test_headers_are_python_values(vhost: VirtualHost) -> None:
    headers = {
        "text": "ä",
        "octets": b"\xff",
        "number": 5,
        "large": 1 << 40,
        "yes": True,
        "nothing": None,
        "list": [1, "two", {"three": [3]}],
        "price": Decimal("3.14"),
    }
    publish(vhost, "orders", 1, headers=headers)
    (found,) = vhost.published()
    assert found.headers == headers
    assert (found.properties.headers, found.properties.delivery_mode) == (None, 2)
    vhost.assert_published(headers={"list": [1, "two", {"three": [3]}], "nothing": None})


def test_headers_and_bodies_are_compared_by_value(vhost: VirtualHost) -> None:
    with channel(vhost.url) as opened:
        opened.queue_declare("orders")
        table = pika.BasicProperties(headers={"place": {"a": 1, "b": 2}})
        opened.basic_publish("", "orders", b"[" * 5000, table)
    vhost.assert_published("orders", headers={"place": {"b": 2, "a": 1}})
    for other in ({1: 2, "a": 3}, [1], 1.0):
        with pytest.raises(AssertionError, match="none as expected"):
            vhost.assert_published("orders", json=other, seconds_max=0)
    with pytest.raises(AssertionError, match="none as expected"):
        vhost.assert_published("orders", headers={"a": 1, 2: 3}, seconds_max=0)  # type: ignore[dict-item]


def test_a_message_larger_than_the_record_is_remembered_until_the_next(vhost: VirtualHost) -> None:
    body = bytes(BYTES_MAX + 1)
    with channel(vhost.url) as opened:
        opened.queue_declare("orders")
        opened.basic_publish("", "orders", body)
        assert [len(each.body) for each in vhost.published("orders")] == [len(body)]
        opened.basic_publish("", "orders", b"next")
        assert [each.body for each in vhost.published("orders")] == [b"next"]


def test_a_wait_ends_with_the_broker() -> None:
    with Broker() as broker:
        with channel(broker.url) as opened:
            opened.queue_declare("orders")
        errors: list[BaseException] = []

        def wait() -> None:
            try:
                broker.queue("orders").wait_for(1, seconds_max=HANG_SECONDS)
            except BrokerStateError as error:
                errors.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        # It is asked on the broker's loop, behind the wait.
        assert broker.queue("orders").ready == 0
        broker.close()
        waiting.join()
    assert "stop" in str(errors[0])


def test_a_leak_is_an_open_channel_or_an_unacked_message(
    broker: Broker, vhost: VirtualHost
) -> None:
    """Each is one of its own virtual host alone."""
    publish(vhost, "orders", 1)
    with (
        broker.new_vhost() as other,
        pika.BlockingConnection(pika.URLParameters(vhost.url)) as connection,
        pika.BlockingConnection(pika.URLParameters(other.url)) as elsewhere,
    ):
        assert vhost.view().leaks == [], "a connection that has nothing open"
        elsewhere.channel()
        assert (len(vhost.view().connections), vhost.view().leaks) == (1, [])
        opened = connection.channel()
        (leak,) = vhost.view().leaks
        assert leak.endswith(": open channels: 1")
        opened.basic_get("orders")
        assert vhost.view().leaks == [f"{leak}, 1 unacked of 'orders'"]
        opened.close()
        assert vhost.view().leaks == []
        assert len(other.view().leaks) == 1
