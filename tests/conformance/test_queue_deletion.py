"""Auto-delete, queue.delete and queue.purge."""

from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import differs, ours_only
from tests.conformance.polling import eventually
from tests.conformance.queues import exists, expect_refused, leave, take

TYPES = pytest.mark.parametrize("queue_type", ["classic", "quorum"])


def fill(client: AmqpClient, queue: str, count: int) -> None:
    """Publish and see that all of it is there."""
    for number in range(count):
        client.publish(str(number).encode(), queue)
    eventually(lambda: client.ready_count(queue) == count)


# Auto-delete


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    owner = connect()
    owner.declare(name, auto_delete=True)
    owner.publish(b"x", name)
    assert owner.get(name) is not None
    leave(owner)
    assert exists(client, name)


def test_an_auto_delete_queue_is_deleted_with_the_cancel_of_its_last_consumer(
    client: AmqpClient, name: str
) -> None:
    client.declare(name, auto_delete=True)
    for tag in ("one", "other"):
        client.call(Basic.Consume(queue=name, consumer_tag=tag), Basic.ConsumeOk)
    client.call(Basic.Cancel("one"), Basic.CancelOk)
    assert exists(client, name)
    client.call(Basic.Cancel("other"), Basic.CancelOk)
    eventually(lambda: not exists(client, name))


def test_an_auto_delete_queue_is_deleted_with_the_channel_of_its_last_consumer(
    connect: Connect, name: str
) -> None:
    client = connect(channels=2)
    client.declare(name, auto_delete=True)
    client.consume(name, channel=2)
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, 2)
    eventually(lambda: not exists(client, name))


def test_an_auto_delete_queue_is_deleted_with_the_connection_of_its_last_consumer(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name, auto_delete=True)
    consumer = connect()
    consumer.consume(name)
    consumer.socket.close()
    eventually(lambda: not exists(client, name))


def test_an_auto_delete_queue_is_deleted_with_its_messages(client: AmqpClient, name: str) -> None:
    client.declare(name, auto_delete=True)
    fill(client, name, 3)
    client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
    client.call(Basic.Consume(queue=name, consumer_tag="c"), Basic.ConsumeOk)
    client.expect_delivery()
    client.call(Basic.Cancel("c"), Basic.CancelOk)
    eventually(lambda: not exists(client, name))
    client.declare(name, auto_delete=True)
    assert client.ready_count(name) == 0


# Transient


def test_a_transient_queue_may_be_shared(connect: Connect, client: AmqpClient, name: str) -> None:
    client.declare(name, durable=False)
    client.publish(b"x", name)
    assert take(connect(), name).body == b"x"


def test_a_transient_queue_outlives_its_connection(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    owner = connect()
    owner.declare(name, durable=False)
    fill(owner, name, 2)
    leave(owner)
    assert client.ready_count(name) == 2


# Delete


@TYPES
def test_delete_ok_counts_the_ready_messages(
    client: AmqpClient, name: str, queue_type: str
) -> None:
    client.declare(name, arguments={"x-queue-type": queue_type})
    fill(client, name, 3)
    client.get(name, no_ack=False)
    assert client.call(Queue.Delete(queue=name), Queue.DeleteOk).message_count == 2
    assert not exists(client, name)


def test_deleting_a_missing_queue_is_no_error(client: AmqpClient, name: str) -> None:
    method = Queue.Delete(queue=name, if_unused=True, if_empty=True)
    assert client.call(method, Queue.DeleteOk).message_count == 0


def test_a_queue_with_a_consumer_is_not_deleted_if_only_unused(
    client: AmqpClient, name: str
) -> None:
    client.declare(name)
    client.call(Basic.Consume(queue=name, consumer_tag="c"), Basic.ConsumeOk)
    client.open_channel(2)
    client.send(Queue.Delete(queue=name, if_unused=True), 2)
    text = f"PRECONDITION_FAILED - queue '{name}' in vhost '/' in use"
    expect_channel_error(client, 406, text, Queue.Delete, 2)
    client.call(Basic.Cancel("c"), Basic.CancelOk)
    client.call(Queue.Delete(queue=name, if_unused=True), Queue.DeleteOk)


def test_a_queue_with_messages_is_not_deleted_if_only_empty(client: AmqpClient, name: str) -> None:
    client.declare(name)
    fill(client, name, 1)
    client.send(Queue.Delete(queue=name, if_empty=True))
    expect_refused(client, f"queue '{name}' in vhost '/' not empty", Queue.Delete)
    client.call(Queue.Purge(queue=name), Queue.PurgeOk)
    client.call(Queue.Delete(queue=name, if_empty=True), Queue.DeleteOk)


@differs(rabbitmq="540, and the connection ends", reason="the client asked for the check")
@pytest.mark.parametrize("condition", ["if_unused", "if_empty"])
def test_a_quorum_queue_is_deleted_on_a_condition_too(
    client: AmqpClient, name: str, condition: str
) -> None:
    client.declare(name, arguments={"x-queue-type": "quorum"})
    fill(client, name, 2)
    client.consume(name, prefetch=1)
    client.expect_delivery()
    client.open_channel(2)
    client.send(Queue.Delete(queue=name, **{condition: True}), 2)
    assert client.expect(Channel.Close, 2).reply_code == 406


def test_a_queue_with_only_unacked_messages_is_empty(client: AmqpClient, name: str) -> None:
    client.declare(name)
    fill(client, name, 1)
    client.get(name, no_ack=False)
    client.call(Queue.Delete(queue=name, if_empty=True), Queue.DeleteOk)


def test_of_both_conditions_if_empty_is_reported_first(client: AmqpClient, name: str) -> None:
    client.declare(name)
    fill(client, name, 2)
    client.open_channel(2)
    client.consume(name, prefetch=1, channel=2)
    client.expect_delivery(2)
    client.send(Queue.Delete(queue=name, if_empty=True, if_unused=True))
    text = f"PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty"
    expect_channel_error(client, 406, text, Queue.Delete)


@TYPES
def test_consumers_of_a_deleted_queue_get_a_cancel(
    connect: Connect, client: AmqpClient, name: str, queue_type: str
) -> None:
    client.declare(name, arguments={"x-queue-type": queue_type})
    consumer = connect()
    consumer.call(Basic.Consume(queue=name, consumer_tag="mine"), Basic.ConsumeOk)
    client.call(Queue.Delete(queue=name), Queue.DeleteOk)
    cancel = consumer.expect(Basic.Cancel)
    assert (cancel.consumer_tag, cancel.nowait) == ("mine", True)


@pytest.mark.parametrize(
    "declared",
    [
        {"durable": True},
        {"durable": False},
        {"durable": False, "exclusive": True},
        {"durable": False, "auto_delete": True},
        {"arguments": {"x-queue-type": "quorum"}},
        {"arguments": {"x-queue-type": "stream"}},
        {"arguments": {"x-single-active-consumer": True}},
    ],
    ids=["durable", "transient", "exclusive", "auto-delete", "quorum", "stream", "single-active"],
)
def test_a_client_that_deletes_gets_delete_ok_before_the_cancels_of_its_consumers(
    connect: Connect, name: str, declared: dict[str, Any]
) -> None:
    client = connect(channels=2)
    client.declare(name, **declared)
    client.call(Basic.Qos(prefetch_count=10), Basic.QosOk)
    for tag in ("one", "other"):
        client.call(Basic.Consume(queue=name, consumer_tag=tag), Basic.ConsumeOk)
    client.send(Queue.Delete(queue=name))
    client.expect(Queue.DeleteOk)
    assert {client.expect(Basic.Cancel).consumer_tag for _ in range(2)} == {"one", "other"}
    # The channel goes on, and a tag that ended may be used again.
    client.declare(name)
    client.call(Basic.Consume(queue=name, consumer_tag="one"), Basic.ConsumeOk)


def test_each_of_several_deletions_is_answered_before_its_cancels(
    client: AmqpClient, new_name: NewName
) -> None:
    queues = [new_name() for _ in range(3)]
    for queue in queues:
        client.declare(queue)
        client.call(Basic.Consume(queue=queue, consumer_tag=queue), Basic.ConsumeOk)
    for queue in queues:
        client.send(Queue.Delete(queue=queue))
    deleted = 0
    for _ in range(2 * len(queues)):
        _, answer = client.receive()
        if isinstance(answer, Basic.Cancel):
            assert answer.consumer_tag in queues[:deleted]
        else:
            assert isinstance(answer, Queue.DeleteOk)
            deleted += 1
    assert deleted == len(queues)


def test_a_deletion_without_a_reply_cancels_the_clients_own_consumers(
    client: AmqpClient, name: str
) -> None:
    client.declare(name)
    client.call(Basic.Consume(queue=name, consumer_tag="mine"), Basic.ConsumeOk)
    client.send(Queue.Delete(queue=name, nowait=True))
    assert client.expect(Basic.Cancel).consumer_tag == "mine"
    client.declare(name)


@ours_only("RabbitMQ has no consumers that only look")
def test_cancel_ok_comes_before_the_cancels_of_an_auto_delete_queue(
    client: AmqpClient, name: str
) -> None:
    client.declare(name, auto_delete=True)
    client.call(Basic.Consume(queue=name, consumer_tag="takes"), Basic.ConsumeOk)
    looks = Basic.Consume(queue=name, consumer_tag="looks", arguments={"x-browse": True})
    client.call(looks, Basic.ConsumeOk)
    client.call(Basic.Cancel("takes"), Basic.CancelOk)
    assert client.expect(Basic.Cancel).consumer_tag == "looks"


def test_a_client_without_the_capability_gets_no_cancel(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name)
    consumer = connect(capabilities={})
    consumer.consume(name)
    client.call(Queue.Delete(queue=name), Queue.DeleteOk)
    assert not exists(consumer, name)


def test_messages_of_a_deleted_queue_can_still_be_acked(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name)
    fill(client, name, 1)
    message = client.get(name, no_ack=False)
    assert message is not None
    connect().call(Queue.Delete(queue=name), Queue.DeleteOk)
    client.send(Basic.Ack(message.tag))
    client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)


def test_a_deletion_deletes_the_bindings(client: AmqpClient, name: str) -> None:
    client.declare(name)
    bind = Queue.Bind(queue=name, exchange="amq.direct", routing_key=name)
    client.call(bind, Queue.BindOk)
    client.call(Queue.Delete(queue=name), Queue.DeleteOk)
    client.declare(name)
    client.publish(b"x", name, "amq.direct", mandatory=True)
    client.expect_return()


# Purge


@TYPES
def test_a_purge_removes_and_counts_the_ready_messages(
    client: AmqpClient, name: str, queue_type: str
) -> None:
    client.declare(name, arguments={"x-queue-type": queue_type})
    fill(client, name, 3)
    unacked = client.get(name, no_ack=False)
    assert unacked is not None
    assert client.call(Queue.Purge(queue=name), Queue.PurgeOk).message_count == 2
    assert client.call(Queue.Purge(queue=name), Queue.PurgeOk).message_count == 0
    client.send(Basic.Reject(unacked.tag, requeue=True))
    message = take(client, name)
    assert message.body == b"0"
    assert message.redelivered


def test_a_purge_of_a_missing_queue_is_an_error(client: AmqpClient, name: str) -> None:
    client.send(Queue.Purge(queue=name))
    expect_channel_error(client, 404, f"NOT_FOUND - no queue '{name}' in vhost '/'", Queue.Purge)
