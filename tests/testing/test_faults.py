"""What clients see when something goes wrong on demand."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import aio_pika
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    AMQPConnectionError,
    ConnectionClosedByBroker,
    NackError,
    ProbableAuthenticationError,
    StreamLostError,
)

from amqp_server.testing import (
    Broker,
    BrokerStateError,
    FaultError,
    NoSuchConnectionError,
    NoSuchQueueError,
)
from tests.amqp_client import AmqpClient, ConnectionLostError
from tests.limits import HANG_SECONDS
from tests.testing.test_broker import PERSISTENT, channel, left


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as started:
        yield started


@pytest.fixture
def url(broker: Broker) -> Iterator[str]:
    with broker.new_vhost() as vhost:
        with channel(vhost.url) as found:
            found.queue_declare("orders", durable=True)
        yield vhost.url


@contextmanager
def opened(url: str, name: str = "", prefetch: int = 0) -> Iterator[BlockingChannel]:
    """Yield a channel with confirms of a connection that may be lost."""
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": name}
    connection = pika.BlockingConnection(parameters)
    try:
        found = connection.channel()
        found.confirm_delivery()
        found.basic_qos(prefetch_count=prefetch)
        yield found
    finally:
        if connection.is_open:
            connection.close()


def publish(found: BlockingChannel, *bodies: bytes) -> None:
    for body in bodies:
        found.basic_publish("", "orders", body, PERSISTENT)


def consume(found: BlockingChannel, count: int) -> list[tuple[bytes, bool, int]]:
    """Return body, redelivered flag and tag of the next deliveries."""
    got: list[tuple[bytes, bool, int]] = []
    for method, _, body in found.consume("orders"):
        got.append((body, method.redelivered, method.delivery_tag))
        if len(got) == count:
            return got
    raise AssertionError("the consumer was cancelled")


def read_on(found: BlockingChannel) -> NoReturn:
    """Read without sending anything, until an exception."""
    while True:
        found.connection.process_data_events(time_limit=HANG_SECONDS)


def octets_to_end(client: AmqpClient) -> Iterator[bytes]:
    """Iterate over what comes before the end of the stream."""
    with suppress(ConnectionLostError):
        while True:
            yield client.receive_raw()


def count_of(url: str) -> int:
    with channel(url) as found:
        return int(found.queue_declare("orders", passive=True).method.message_count)


# Connections


def test_a_closed_connection_gets_320_with_the_reason(broker: Broker, url: str) -> None:
    with opened(url, "worker") as worker, opened(url, "shop") as shop:
        assert broker.faults.close_connections("worker", reason="maintenance") == 1
        with pytest.raises(ConnectionClosedByBroker) as caught:
            publish(worker, b"lost")
        assert (caught.value.reply_code, "maintenance" in caught.value.reply_text) == (320, True)
        publish(shop, b"kept")
    assert left(url, "orders") == [b"kept"]


def test_a_reset_connection_is_lost_and_its_unacked_messages_return(
    broker: Broker, url: str
) -> None:
    with opened(url) as shop, opened(url) as worker:
        publish(shop, b"one")
        assert consume(worker, 1) == [(b"one", False, 1)]
        assert broker.faults.reset_connections(queue="orders") == 1
        with pytest.raises(StreamLostError, match="reset by peer"):
            worker.queue_declare("orders", passive=True)
        assert consume(shop, 1) == [(b"one", True, 1)]


def test_all_connections_of_one_virtual_host_and_no_others(broker: Broker, url: str) -> None:
    with (
        opened(url),
        broker.new_vhost() as other,
        opened(other.url) as first,
        opened(other.url) as second,
    ):
        assert other.faults.reset_connections() == 2
        for each in (first, second):
            with pytest.raises(StreamLostError):
                each.queue_declare("")
        assert count_of(url) == 0
        with pytest.raises(NoSuchConnectionError, match="no connection in vhost"):
            other.faults.close_connections()
        with pytest.raises(NoSuchQueueError, match=r"no queue 'orders' in vhost.*: there are none"):
            other.faults.redeliver("orders")


def test_what_is_not_there_is_refused_with_what_is(broker: Broker, url: str) -> None:
    with opened(url, "shop"):
        with pytest.raises(NoSuchConnectionError, match=r"no connection 'worker'.*'shop'"):
            broker.faults.reset_connections("worker")
        with pytest.raises(NoSuchConnectionError, match="that consumes from queue 'orders'"):
            broker.faults.reset_connections(queue="orders")
        with (
            pytest.raises(NoSuchQueueError, match="no queue 'order': there are 'orders'"),
            broker.faults.pause_deliveries("order"),
        ):
            pass
        with pytest.raises(ValueError, match="'memory' or 'disk'"):
            broker.faults.block_publishers("cpu").__enter__()  # type: ignore[arg-type]
    with pytest.raises(BrokerStateError, match="has not started"):
        Broker().faults.reset_connections()


def test_a_delivery_is_cut_in_the_middle_of_its_frame_and_comes_again(
    broker: Broker, url: str
) -> None:
    with opened(url) as shop, opened(url) as worker:
        cut = broker.faults.cut_next_delivery("orders")
        publish(shop, b"one")
        assert not cut.has_happened
        with pytest.raises(StreamLostError):
            consume(worker, 1)
        assert cut.wait(HANG_SECONDS)
        assert consume(shop, 1) == [(b"one", True, 1)]


def test_a_confirm_is_cut_in_the_middle_of_its_frame(broker: Broker, url: str) -> None:
    with opened(url) as shop:
        cut = broker.faults.cut_next_confirm()
        with pytest.raises(StreamLostError):
            publish(shop, b"one")
        assert cut.has_happened
    assert left(url, "orders") == [b"one"]


@pytest.mark.parametrize("what", ["delivery", "confirm"])
def test_what_comes_before_the_end_is_the_first_half_of_a_frame(
    broker: Broker, url: str, what: str
) -> None:
    with AmqpClient((broker.host, broker.port)) as client:
        client.open(vhost=url.rpartition("/")[2])
        client.open_channel(confirms=what == "confirm")
        if what == "delivery":
            client.consume("orders")
            broker.faults.cut_next_delivery("orders")
        else:
            broker.faults.cut_next_confirm()
        client.publish(b"one", "orders")
        octets = b"".join(octets_to_end(client))
    assert 0 < len(octets) < 7 + int.from_bytes(octets[3:7], "big")


def test_a_cancelled_fault_does_not_happen(broker: Broker, url: str) -> None:
    with opened(url) as shop:
        cut = broker.faults.cut_next_confirm()
        cut.cancel()
        publish(shop, b"one")
        assert not cut.has_happened


def test_logins_are_refused_with_403(broker: Broker, url: str) -> None:
    with (
        broker.faults.refuse_logins(),
        pytest.raises(ProbableAuthenticationError, match=r"403.*ACCESS_REFUSED"),
    ):
        pika.BlockingConnection(pika.URLParameters(url))
    assert count_of(url) == 0


def test_one_virtual_host_refuses_its_clients(broker: Broker, url: str) -> None:
    with broker.new_vhost() as other, other.faults.refuse_logins():
        with pytest.raises(AMQPConnectionError, match=r"403.*ACCESS_REFUSED"):
            pika.BlockingConnection(pika.URLParameters(other.url))
        assert count_of(url) == 0


# Publishers


@pytest.mark.parametrize("resource", ["memory", "disk"])
def test_publishers_are_blocked_until_the_end_of_the_block(
    broker: Broker, url: str, resource: str
) -> None:
    with opened(url) as shop:
        seen: list[object] = []
        connection = shop.connection
        connection.add_on_connection_blocked_callback(
            lambda _, frame: seen.append(frame.method.reason)
        )
        connection.add_on_connection_unblocked_callback(lambda _, frame: seen.append("unblocked"))
        unconfirmed = connection.channel()
        with broker.faults.block_publishers(resource):  # type: ignore[arg-type]
            publish(unconfirmed, b"one")
            while not seen:
                connection.process_data_events(time_limit=HANG_SECONDS)
            assert count_of(url) == 0
        while len(seen) < 2:
            connection.process_data_events(time_limit=HANG_SECONDS)
        assert seen == [f"low on {resource}", "unblocked"]
        assert unconfirmed.queue_declare("orders", passive=True)
    assert left(url, "orders") == [b"one"]


def test_a_refused_message_is_nacked_and_not_there(broker: Broker, url: str) -> None:
    with opened(url) as shop:
        with broker.faults.refuse_publishes("orders"):
            with broker.faults.refuse_publishes("orders"), pytest.raises(NackError):
                publish(shop, b"one")
            with pytest.raises(NackError):
                publish(shop, b"two")
        publish(shop, b"three")
    assert left(url, "orders") == [b"three"]


def test_a_nacked_confirm_leaves_the_message_there(broker: Broker, url: str) -> None:
    with opened(url) as shop, broker.faults.nack_confirms(), pytest.raises(NackError):
        publish(shop, b"one")
    assert left(url, "orders") == [b"one"]


async def test_confirms_are_held_until_the_end_of_the_block(broker: Broker, url: str) -> None:
    async with await aio_pika.connect(url) as connection:
        exchange = (await connection.channel()).default_exchange
        with broker.faults.hold_confirms():
            waiting = [
                asyncio.create_task(exchange.publish(aio_pika.Message(body), "orders"))
                for body in (b"one", b"two")
            ]
            while await asyncio.to_thread(count_of, url) < 2:
                pass
            assert not any(each.done() for each in waiting)
        await asyncio.gather(*waiting)


def test_confirms_that_are_held_at_the_end_of_their_channel_are_dropped(
    broker: Broker, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(url) as shop:
        other = shop.connection.channel()
        with broker.faults.hold_confirms():
            raw = shop.connection.channel()
            raw._impl.confirm_delivery(ack_nack_callback=lambda _: None)
            raw.connection.process_data_events()
            raw.basic_publish("", "orders", b"one")
            raw.close()
        assert other.queue_declare("orders", passive=True).method.message_count == 1
    assert "unregistered channel" not in caplog.text


def test_a_publisher_that_repeats_after_a_lost_confirm_publishes_twice(
    broker: Broker, url: str
) -> None:
    lost = broker.faults.lose_next_confirm()
    for _ in range(2):
        with opened(url) as shop:
            try:
                publish(shop, b"one")
            except StreamLostError:
                assert lost.has_happened
    assert left(url, "orders") == [b"one", b"one"]


# Consumers


def test_unacked_messages_come_again_and_late_acks_have_no_effect(broker: Broker, url: str) -> None:
    with opened(url) as shop, opened(url, prefetch=2) as worker:
        publish(shop, b"one", b"two", b"three")
        assert consume(worker, 2) == [(b"one", False, 1), (b"two", False, 2)]
        assert broker.faults.redeliver("orders") == 2
        assert broker.faults.redeliver("orders") == 0
        worker.basic_ack(1)
        worker.basic_nack(2)
        again = consume(worker, 2)
        assert again == [(b"one", True, 3), (b"two", True, 4)]
        worker.basic_ack(4, multiple=True)
        assert consume(worker, 1) == [(b"three", False, 5)]
        worker.basic_ack(5)
        worker.queue_declare("orders", passive=True)
    assert left(url, "orders") == []


def test_held_messages_come_behind_others_with_the_flag(broker: Broker, url: str) -> None:
    with opened(url) as shop, opened(url) as worker:
        publish(shop, b"one", b"two", b"three")
        with broker.faults.hold_first("orders", 2):
            assert consume(worker, 1) == [(b"three", False, 1)]
        assert consume(worker, 2) == [(b"one", True, 2), (b"two", True, 3)]


def test_no_more_messages_are_held_than_there_are(broker: Broker, url: str) -> None:
    with opened(url) as shop:
        publish(shop, b"one")
        with (
            pytest.raises(FaultError, match=r"cannot hold 2 messages.*1 are ready"),
            broker.faults.hold_first("orders", 2),
        ):
            pass
    assert left(url, "orders") == [b"one"]


@pytest.mark.interpreted("a pause derives from consumers")
def test_a_paused_queue_grows_and_delivers_afterwards(broker: Broker, url: str) -> None:
    with opened(url) as shop, opened(url) as worker:
        got: list[bytes] = []
        worker.basic_consume("orders", lambda _c, _m, _p, body: got.append(body), auto_ack=True)
        with broker.faults.pause_deliveries("orders"):
            with broker.faults.pause_deliveries("orders"):
                publish(shop, b"one", b"two")
            assert count_of(url) == 2
            worker.connection.process_data_events()
            assert got == []
            # Another consumer gets nothing either, and may go.
            other = shop.connection.channel()
            other.basic_consume("orders", lambda *_: got.append(b"wrong"))
            other.close()
        while len(got) < 2:
            worker.connection.process_data_events(time_limit=HANG_SECONDS)
        assert got == [b"one", b"two"]


def test_a_stream_is_not_paused(broker: Broker, url: str) -> None:
    with opened(url) as shop:
        shop.queue_declare("events", durable=True, arguments={"x-queue-type": "stream"})
        with pytest.raises(FaultError, match="it is a stream"):
            broker.faults.pause_deliveries("events").__enter__()


# Disk and process


def test_a_full_disk_nacks_and_afterwards_all_works_again(broker: Broker, url: str) -> None:
    with opened(url) as shop:
        publish(shop, b"one")
        # A queue in memory alone does not notice.
        shop.queue_declare("in memory")
        with broker.faults.full_disk():
            shop.basic_publish("", "in memory", b"one")
            for _ in range(2):
                with pytest.raises(NackError):
                    publish(shop, b"two")
            # What is there can be had.
            assert shop.basic_get("orders", auto_ack=True)[2] == b"one"
        publish(shop, b"three")
    broker.restart()
    assert left(url, "orders") == [b"three"]


def test_a_write_that_meets_the_full_disk_does_not_leave_a_queue_without_it(
    broker: Broker, url: str
) -> None:
    with opened(url) as shop:
        unconfirmed = shop.connection.channel()
        for _ in range(20):
            with broker.faults.full_disk():
                publish(unconfirmed, b"perhaps")
                # The broker has the message: its write is under way, or has failed.
                unconfirmed.queue_declare("orders", passive=True)
            publish(shop, b"one")
    assert left(url, "orders").count(b"one") == 20


@pytest.mark.parametrize("durable", [False, True])
def test_after_a_crash_what_is_confirmed_is_there_and_flagged(
    caplog: pytest.LogCaptureFixture, durable: bool
) -> None:
    with Broker(durable=durable, offset_checkpoint_interval_seconds=0) as broker:
        url = broker.url
        with opened(url) as shop:
            shop.queue_declare("orders", durable=True)
            shop.queue_declare("short-lived")
            # At the end of its connection it would be deleted, but the broker is dead by then.
            shop.queue_declare("of a consumer", durable=True, auto_delete=True)
            shop.basic_consume("of a consumer", lambda *_: None)
            publish(shop, b"one", b"two", b"three")
            shop.basic_publish("", "orders", b"transient")
            shop.basic_ack(consume(shop, 1)[0][2])
            assert shop.queue_declare("orders", passive=True)
            broker.save_checkpoint()
            shop.basic_ack(consume(shop, 1)[0][2])
            assert shop.queue_declare("orders", passive=True)
            broker.crash()
            with pytest.raises(StreamLostError, match="reset by peer"):
                read_on(shop)
        assert broker.url == url
        with opened(url) as shop:
            assert shop.queue_declare("of a consumer", passive=True)
            # The checkpoint has the first ack, and nothing has the second one.
            assert consume(shop, 2) == [(b"two", True, 1), (b"three", True, 2)]
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue"):
                shop.connection.channel().queue_declare("short-lived", passive=True)
    ours = [each for each in caplog.records if each.name.startswith(("amqp_server", "asyncio"))]
    assert [each.message for each in ours if each.levelname == "ERROR"] == []


def test_a_crash_with_an_older_checkpoint_brings_settled_messages_back() -> None:
    with Broker() as broker, Broker() as other:
        with opened(broker.url) as shop:
            shop.queue_declare("orders", durable=True)
            publish(shop, b"one", b"two")
            saved = broker.save_checkpoint()
            shop.basic_ack(consume(shop, 1)[0][2])
            assert shop.queue_declare("orders", passive=True)
            with pytest.raises(ValueError, match="another broker"):
                other.crash(saved)
        broker.restart()
        assert count_of(broker.url) == 1
        for _ in range(2):
            broker.crash(saved)
            with opened(broker.url) as shop:
                assert consume(shop, 2) == [(b"one", True, 1), (b"two", True, 2)]


def test_faults_last_over_a_restart_in_their_block() -> None:
    with Broker() as broker, broker.faults.refuse_logins():
        broker.restart()
        with pytest.raises(ProbableAuthenticationError):
            pika.BlockingConnection(pika.URLParameters(broker.url))
        broker.crash()
        with pytest.raises(ProbableAuthenticationError):
            pika.BlockingConnection(pika.URLParameters(broker.url))


def test_the_block_of_a_fault_may_outlive_the_broker() -> None:
    broker = Broker().start()
    with (
        broker.faults.full_disk(),
        broker.faults.block_publishers(),
        broker.faults.hold_confirms(),
        broker.faults.nack_confirms(),
        broker.faults.refuse_logins(),
    ):
        broker.close()


@pytest.mark.parametrize("durable", [False, True])
def test_no_confirmed_message_is_lost_over_crashes_in_the_middle_of_writes(durable: bool) -> None:
    confirmed: list[bytes] = []
    news = threading.Semaphore(0)
    crashed = threading.Event()

    def publish_on(url: str) -> None:
        number = 0
        while not crashed.is_set():
            with suppress(AMQPConnectionError), opened(url) as shop:
                while not crashed.is_set():
                    number += 1
                    publish(shop, b"%d" % number)
                    confirmed.append(b"%d" % number)
                    news.release()

    with Broker(durable=durable) as broker:
        with channel(broker.url) as found:
            found.queue_declare("orders", durable=True)
        publishers = [threading.Thread(target=publish_on, args=(broker.url,)) for _ in range(3)]
        for each in publishers:
            each.start()
        for _ in range(5):
            for _ in range(30):
                news.acquire()
            broker.crash()
        crashed.set()
        for each in publishers:
            each.join()
        assert Counter(confirmed) - Counter(left(broker.url, "orders")) == Counter()
