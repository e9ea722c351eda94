"""What is deleted or closed is freed at once, without the garbage collector.

A full collection walks all objects of all queues and holds the event loop for that time, and it
never looks at the objects that were there at the start.
"""

from __future__ import annotations

import gc
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue, Tx

from tests.amqp_client import AmqpClient, connect
from tests.threaded_server import ThreadedServer

REPEATS = 40
LEFT_MAX = 8
"""Objects of the last repeats that something may still refer to, such as a cache."""
LOOKS_MAX, LOOK_SECONDS = 20, 0.05
PACKAGES = {"amqp_server", "appendlog", "metadata", "offsets", "ring"}


def live_objects() -> Counter[str]:
    """Count the objects of our classes that are not frozen, by class."""
    return Counter(
        type(each).__qualname__
        for each in gc.get_objects()
        if str(type(each).__module__).split(".")[0] in PACKAGES
    )


@contextmanager
def nothing_left(server: ThreadedServer, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that what the body makes and ends is freed without a collection."""
    # Records of refusals would keep the errors, whose tracebacks name the connections.
    caplog.set_level(logging.CRITICAL, "amqp_server")
    gc.collect()
    # What there is by now is not counted.
    gc.freeze()
    gc.disable()
    try:
        yield

        def left() -> dict[str, int]:
            return {name: count for name, count in live_objects().items() if count > LEFT_MAX}

        # Files are removed and connections end a little after the answers.
        for _ in range(LOOKS_MAX):
            if not server.call(left):
                break
            time.sleep(LOOK_SECONDS)
        assert server.call(left) == {}, f"alive after {REPEATS} repeats"
    finally:
        # What is frozen stays so, as it was before.
        gc.enable()


def declare(client: AmqpClient, arguments: dict[str, Any], *, durable: bool = True) -> None:
    client.call(Queue.Declare(queue="q", durable=durable, arguments=arguments), Queue.DeclareOk)


def delete(client: AmqpClient) -> None:
    client.call(Queue.Delete(queue="q"), Queue.DeleteOk)


def consume(client: AmqpClient, queue: str, start: str | None = None) -> None:
    arguments: dict[str, Any] = {} if start is None else {"x-stream-offset": start}
    method = Basic.Consume(queue=queue, consumer_tag="c", arguments=arguments)
    client.call(method, Basic.ConsumeOk)


KINDS: dict[str, dict[str, Any]] = {
    "classic": {},
    "priority": {"x-max-priority": 3},
    "quorum": {"x-queue-type": "quorum", "x-delivery-limit": 2},
    "stream": {"x-queue-type": "stream"},
    "lifetime of messages": {"x-message-ttl": 100_000},
    "expiry": {"x-expires": 100_000},
    "length": {"x-max-length": 10, "x-overflow": "reject-publish"},
    "dead letters": {"x-dead-letter-exchange": "amq.fanout"},
    "single active consumer": {"x-single-active-consumer": True},
}


@pytest.mark.parametrize("arguments", KINDS.values(), ids=KINDS.keys())
def test_a_deleted_queue_of_each_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, arguments: dict[str, Any]
) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.call(Basic.Qos(prefetch_count=10), Basic.QosOk)
        with nothing_left(server, caplog):
            for _ in range(REPEATS):
                declare(client, arguments)
                client.publish(b"m", "q")
                client.expect_confirmed()
                consume(client, "q", "first" if arguments.get("x-queue-type") == "stream" else None)
                client.send(Basic.Ack(delivery_tag=client.expect_delivery().tag))
                client.call(Basic.Cancel(consumer_tag="c"), Basic.CancelOk)
                delete(client)


def _bound(client: AmqpClient) -> None:
    client.call(Exchange.Declare(exchange="x", durable=True), Exchange.DeclareOk)
    declare(client, {})
    client.call(Queue.Bind(queue="q", exchange="x", routing_key="k"), Queue.BindOk)
    client.call(Exchange.Delete(exchange="x"), Exchange.DeleteOk)
    delete(client)


def _rejecting(client: AmqpClient) -> None:
    declare(client, {"x-dead-letter-exchange": "amq.fanout"})
    client.publish(b"m", "q")
    client.expect_confirmed()
    consume(client, "q")
    tag = client.expect_delivery().tag
    client.send(Basic.Reject(delivery_tag=tag, requeue=False))
    client.call(Basic.Cancel(consumer_tag="c"), Basic.CancelOk)
    delete(client)


def _transient(client: AmqpClient) -> None:
    declare(client, {}, durable=False)
    client.publish(b"m", "q")
    client.expect_confirmed()
    delete(client)


def _group(client: AmqpClient) -> None:
    declare(client, {"x-queue-type": "stream"})
    client.publish(b"m", "q")
    client.expect_confirmed()
    client.call(Basic.Qos(prefetch_count=10), Basic.QosOk)
    arguments: dict[str, Any] = {"x-consumer-group": "g", "x-stream-offset": "first"}
    method = Basic.Consume(queue="q", consumer_tag="c", arguments=arguments)
    client.call(method, Basic.ConsumeOk)
    client.send(Basic.Ack(delivery_tag=client.expect_delivery().tag))
    client.call(Basic.Cancel(consumer_tag="c"), Basic.CancelOk)
    delete(client)


def _delayed(client: AmqpClient) -> None:
    method = Exchange.Declare(
        exchange="late",
        exchange_type="x-delayed-message",
        durable=True,
        arguments={"x-delayed-type": "direct"},
    )
    client.call(method, Exchange.DeclareOk)
    client.call(Exchange.Delete(exchange="late"), Exchange.DeleteOk)


WAYS: dict[str, Callable[[AmqpClient], None]] = {
    "bound": _bound,
    "delayed": _delayed,
    "group": _group,
    "rejecting": _rejecting,
    "transient": _transient,
}


@pytest.mark.parametrize("use", WAYS.values(), ids=WAYS.keys())
def test_a_deleted_queue_after_each_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, use: Callable[[AmqpClient], None]
) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        use(client)
        with nothing_left(server, caplog):
            for _ in range(REPEATS):
                use(client)


def _idle(client: AmqpClient) -> None:
    client.open_channel()


def _consuming(client: AmqpClient) -> None:
    client.open_channel(confirms=True)
    client.call(Basic.Qos(prefetch_count=10), Basic.QosOk)
    client.publish(b"m", "shared")
    client.expect_confirmed()
    consume(client, "shared")
    client.expect_delivery()


def _exclusive(client: AmqpClient) -> None:
    client.open_channel()
    client.call(Queue.Declare(queue="own", exclusive=True), Queue.DeclareOk)


def _transactional(client: AmqpClient) -> None:
    client.open_channel()
    client.call(Tx.Select(), Tx.SelectOk)
    client.publish(b"m", "shared")


def _closing_channels(client: AmqpClient) -> None:
    client.open_channel()
    client.call(Confirm.Select(), Confirm.SelectOk)
    client.call(Channel.Close(0, "", 0, 0), Channel.CloseOk)
    client.open_channel()


def _refused(client: AmqpClient) -> None:
    client.open_channel()
    client.send(Queue.Declare(queue="missing", passive=True))
    client.expect(Channel.Close)


def _asking(client: AmqpClient) -> None:
    client.open_channel()
    method = Basic.Consume(queue="amq.rabbitmq.reply-to", consumer_tag="c", no_ack=True)
    client.call(method, Basic.ConsumeOk)


def _limited(client: AmqpClient) -> None:
    client.open_channel()
    client.publish(b"m", "shared")
    arguments: dict[str, Any] = {"x-consumer-timeout": 100_000}
    method = Basic.Consume(queue="shared", consumer_tag="c", arguments=arguments)
    client.call(method, Basic.ConsumeOk)
    client.expect_delivery()


def _refused_publish(client: AmqpClient) -> None:
    client.open_channel()
    client.publish(b"m", "shared", properties=Basic.Properties(user_id="another"))
    client.expect(Channel.Close)


SESSIONS: dict[str, Callable[[AmqpClient], None]] = {
    "idle": _idle,
    "direct reply": _asking,
    "time to acknowledge": _limited,
    "consuming": _consuming,
    "exclusive queue": _exclusive,
    "transaction": _transactional,
    "closed channels": _closing_channels,
    "refused": _refused,
    "refused publish": _refused_publish,
}


@pytest.mark.parametrize("use", SESSIONS.values(), ids=SESSIONS.keys())
def test_a_lost_connection_after_each_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, use: Callable[[AmqpClient], None]
) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as keeper:
        keeper.open_channel()
        arguments: dict[str, Any] = {"x-max-length": 1}
        keeper.call(Queue.Declare(queue="shared", arguments=arguments), Queue.DeclareOk)
        with connect(server.address) as first:
            use(first)
        with nothing_left(server, caplog):
            for _ in range(REPEATS):
                with connect(server.address) as client:
                    use(client)


POLICY = {
    "message-ttl": 100_000,
    "expires": 100_000,
    "max-length": 10,
    "max-length-bytes": 1000,
    "dead-letter-exchange": "amq.fanout",
    "compression": "zstd",
}


def test_what_a_cleared_policy_gave_to_a_queue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        declare(client, {})
        policies = server.server.policies

        async def set_and_clear() -> None:
            values = {"name": "p", "pattern": "^q$", "definition": POLICY}
            await policies.set("/", await policies.parse(values))
            await policies.clear("/", "p")

        with nothing_left(server, caplog):
            for _ in range(REPEATS):
                server.run(set_and_clear)
                client.publish(b"m", "q")
                client.expect_confirmed()
                client.call(Queue.Purge(queue="q"), Queue.PurgeOk)
