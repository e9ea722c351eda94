"""`queues.pause` and `queues.resume`: consumers get nothing, publishes go on."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import body
from pamqp.commands import Basic, Queue

from amqp_server.audit.reading import AuditReader
from amqp_server.control.client import ask
from amqp_server.control.protocol import ControlError
from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer

STREAM = {"x-queue-type": "stream"}


def pause(server: RunningServer, name: str) -> object:
    return ask(server.storage_path, "queues.pause", vhost="/", name=name)


def resume(server: RunningServer, name: str) -> object:
    return ask(server.storage_path, "queues.resume", vhost="/", name=name)


def stats(server: RunningServer, name: str) -> dict[str, Any]:
    found = ask(server.storage_path, "queues.stats", vhost="/", queue=name, after="", limit=1)
    return dict(found["queues"][0])


def publish(client: AmqpClient, queue: str, *bodies: bytes) -> None:
    for each in bodies:
        client.publish(each, queue)
        client.expect(Basic.Ack)


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 3}, {"x-queue-type": "quorum"}])
def test_a_paused_queue_takes_and_keeps_what_is_published(
    server: RunningServer, arguments: dict[str, Any]
) -> None:
    with connect(server.address) as consumer, connect(server.address) as publisher:
        consumer.open_channel()
        publisher.open_channel(confirms=True)
        consumer.declare("q", arguments=arguments)
        consumer.consume("q")
        assert pause(server, "q") == {"changed": True}
        assert pause(server, "q") == {"changed": False}
        publish(publisher, "q", b"1", b"2")
        # The consumer's turn would have come before the answer to this.
        assert consumer.ready_count("q") == 2
        assert publisher.get("q") is None
        assert stats(server, "q")["state"] == "paused"
        assert resume(server, "q") == {"changed": True}
        assert [consumer.expect_delivery().body for _ in range(2)] == [b"1", b"2"]
        assert stats(server, "q")["state"] == "running"


def test_a_paused_stream_gives_nothing_to_consumers_and_groups(server: RunningServer) -> None:
    with connect(server.address) as publisher:
        publisher.open_channel(confirms=True)
        publisher.declare("s", arguments=STREAM)
        publish(publisher, "s", b"1")
        assert pause(server, "s") == {"changed": True}
        for number, group in enumerate(({}, {"x-consumer-group": "g"}), 1):
            publisher.open_channel(number + 1)
            arguments = {"x-stream-offset": "first", **group}
            publisher.consume("s", prefetch=5, arguments=arguments, channel=number + 1)
        # Both consumers had their turn before the answer to this.
        publish(publisher, "s", b"2")
        resume(server, "s")
        seen = {(2, b"1"), (2, b"2"), (3, b"1"), (3, b"2")}
        while seen:
            number, deliver = publisher.receive()
            assert isinstance(deliver, Basic.Deliver)
            _, _ = publisher.receive()
            _, content = publisher.receive()
            assert isinstance(content, body.ContentBody)
            seen.remove((number, content.value))


def test_a_pause_survives_kill_and_restart(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("durable")
        client.declare("transient", durable=False)
        publish(client, "durable", b"kept")
        for name in ("durable", "transient"):
            pause(server, name)
    server.kill()
    server.start()
    assert stats(server, "durable")["state"] == "paused"
    with connect(server.address) as client:
        client.open_channel()
        assert client.get("durable") is None
        resume(server, "durable")
        message = client.get("durable")
        assert message is not None
        assert message.body == b"kept"
    assert server.terminate() == 0
    server.start()
    assert stats(server, "durable")["state"] == "running"


def test_the_audit_log_says_who_paused(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
    pause(server, "q")
    resume(server, "q")
    assert server.terminate() == 0
    found = AuditReader(server.storage_path).new_events()
    mine = [event for event in found if event["event"] in ("queue.paused", "queue.resumed")]
    assert [(each["event"], each["object"]) for each in mine] == [
        ("queue.paused", "q"),
        ("queue.resumed", "q"),
    ]
    assert all(each["user"].startswith("os:") for each in mine)


def test_a_missing_queue_cannot_be_paused(server: RunningServer) -> None:
    with pytest.raises(ControlError, match="no queue 'none' in vhost '/'"):
        pause(server, "none")


def test_a_deleted_queue_is_declared_again_without_the_pause(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        pause(server, "q")
        client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
        client.declare("q")
    assert stats(server, "q")["state"] == "running"
