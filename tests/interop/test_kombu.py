"""kombu and py-amqp, which Celery stands on, by themselves."""

from collections.abc import Iterator
from typing import Any

import amqp
import kombu
import pytest
from kombu.pools import producers

from tests.conftest import StartServer
from tests.interop.conftest import Address
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop


@pytest.fixture
def connection(url: str) -> Iterator[kombu.Connection]:
    """Open a kombu connection with confirms."""
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as opened:
        yield opened


def test_a_simple_queue_takes_and_gives(connection: kombu.Connection, name: str) -> None:
    with connection.SimpleQueue(name) as queue:
        for number in range(5):
            queue.put({"number": number}, compression="gzip" if number % 2 else None)
        assert queue.qsize() == 5
        for number in range(5):
            message = queue.get(timeout=HANG_SECONDS)
            assert message.payload == {"number": number}
            message.ack()
        with pytest.raises(queue.Empty):
            queue.get(block=False)
        assert queue.qsize() == 0


def test_a_consumer_requeues_and_rejects(connection: kombu.Connection, name: str) -> None:
    exchange = kombu.Exchange(name, "topic", durable=False)
    queue = kombu.Queue(name, exchange, routing_key="a.#", durable=False, auto_delete=True)
    seen: list[tuple[str, bool]] = []

    def receive(body: str, message: Any) -> None:  # noqa: ANN401
        redelivered = message.delivery_info["redelivered"]
        seen.append((body, redelivered))
        if body == "again" and not redelivered:
            message.requeue()
        elif body == "bad":
            message.reject()
        else:
            message.ack()

    with (
        connection.Consumer(queue, callbacks=[receive], prefetch_count=1),
        producers[connection].acquire(block=True) as producer,
    ):
        for body in ("again", "bad", "good"):
            producer.publish(body, exchange=exchange, routing_key="a.b", mandatory=True)
        while len(seen) < 4:
            connection.drain_events(timeout=HANG_SECONDS)
    assert seen == [("again", False), ("again", True), ("bad", False), ("good", False)]


def test_publishing_goes_on_after_the_server_was_restarted(
    start_server: StartServer, name: str
) -> None:
    server = start_server()
    server.options += ("--port", str(server.port))
    url = f"amqp://guest:guest@{server.host}:{server.port}/"
    queue = kombu.Queue(name, durable=True)
    policy = {"max_retries": 50, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.5}
    with (
        kombu.Connection(url, transport_options={"confirm_publish": True}) as connection,
        kombu.Producer(connection) as producer,
    ):
        for number in range(4):
            producer.publish(
                number, routing_key=name, declare=[queue], retry=True, retry_policy=policy
            )
            server.kill()
            server.restart()
        with connection.clone() as again, again.SimpleQueue(queue) as simple:
            assert [simple.get(timeout=HANG_SECONDS).payload for _ in range(4)] == [0, 1, 2, 3]


@pytest.fixture
def plain(address: Address) -> Iterator[amqp.Connection]:
    """Open a py-amqp connection."""
    host, port = address
    with amqp.Connection(f"{host}:{port}", heartbeat=10, confirm_publish=True) as opened:
        yield opened


def test_py_amqp_publishes_gets_and_is_told_of_returns(plain: amqp.Connection, name: str) -> None:
    channel = plain.channel()
    channel.queue_declare(name, durable=True, auto_delete=False)
    headers = {"a": 1 << 40, "b": [True, None, 2.5], "c": {"d": "ä"}}
    message = amqp.Message("text", content_type="text/plain", application_headers=headers)
    channel.basic_publish(message, routing_key=name)
    got = channel.basic_get(name)
    assert (got.body, got.headers) == ("text", headers)
    channel.basic_ack(got.delivery_tag)
    returned: list[Any] = []
    channel.events["basic_return"].add(lambda *details: returned.append(details[0]))
    channel.basic_publish(amqp.Message("back"), routing_key=name + "?", mandatory=True)
    assert [each.reply_code for each in returned] == [312]


def test_py_amqp_is_told_that_its_consumer_is_cancelled(plain: amqp.Connection, name: str) -> None:
    channel = plain.channel()
    cancelled: list[str] = []
    channel.queue_declare(name, auto_delete=False)
    tag = channel.basic_consume(name, callback=print, on_cancel=cancelled.append)
    plain.channel().queue_delete(name)
    while not cancelled:
        plain.drain_events(timeout=HANG_SECONDS)
    assert cancelled == [tag]


def test_py_amqp_errors_have_their_kinds(plain: amqp.Connection, name: str) -> None:
    with pytest.raises(amqp.NotFound):
        plain.channel().queue_declare(name, passive=True)
    with pytest.raises(amqp.AccessRefused):
        plain.channel().exchange_declare("amq.mine", "direct")
    plain.channel().queue_declare(name, auto_delete=False)
    with pytest.raises(amqp.PreconditionFailed):
        plain.channel().queue_declare(name, durable=True, auto_delete=False)
    channel = plain.channel()
    with pytest.raises(amqp.NotFound):
        channel.basic_publish_confirm(amqp.Message(""), exchange="nowhere", routing_key="k")
