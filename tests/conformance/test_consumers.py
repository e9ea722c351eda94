"""Consumers start, get deliveries and are cancelled."""

import pytest
from pamqp.commands import Basic, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect
from tests.conformance.consuming import (
    consume,
    drain,
    expect_bodies,
    expect_quiet,
    fill,
)
from tests.conformance.errors import expect_channel_error, expect_connection_error
from tests.conformance.marks import differs_from_3_10

BURST = 3_000


class TestBeginning:
    def test_a_consumer_without_a_tag_gets_one(self, connect: Connect, name: str) -> None:
        client = connect(channels=2)
        client.declare(name)
        tags = {consume(client, name, channel=channel) for channel in (1, 1, 2)}
        assert len(tags) == 3
        assert all(tag.startswith("amq.ctag-") for tag in tags)

    def test_a_tag_is_used_once_on_a_channel(self, client: AmqpClient, name: str) -> None:
        client.declare(name)
        consume(client, name, "mine")
        client.send(Basic.Consume(queue=name, consumer_tag="mine"))
        text = "NOT_ALLOWED - attempt to reuse consumer tag 'mine'"
        expect_connection_error(client, 530, text, Basic.Consume)

    def test_a_tag_that_is_used_is_noticed_before_a_missing_queue(
        self, client: AmqpClient, name: str
    ) -> None:
        client.declare(name)
        consume(client, name, "mine")
        client.send(Basic.Consume(queue=name + "-missing", consumer_tag="mine"))
        text = "NOT_ALLOWED - attempt to reuse consumer tag 'mine'"
        expect_connection_error(client, 530, text, Basic.Consume)

    def test_another_channel_may_use_the_same_tag(self, connect: Connect, name: str) -> None:
        client = connect(channels=2)
        client.declare(name)
        assert consume(client, name, "mine", channel=1) == "mine"
        assert consume(client, name, "mine", channel=2) == "mine"

    def test_a_tag_is_free_after_its_cancellation(self, client: AmqpClient, name: str) -> None:
        client.declare(name)
        consume(client, name, "mine")
        client.call(Basic.Cancel("mine"), Basic.CancelOk)
        consume(client, name, "mine")

    def test_a_tag_is_free_after_its_queue_was_deleted(self, connect: Connect, name: str) -> None:
        client, other = connect(), connect()
        other.declare(name)
        consume(client, name, "mine")
        other.call(Queue.Delete(queue=name), Queue.DeleteOk)
        assert client.expect(Basic.Cancel).consumer_tag == "mine"
        other.declare(name)
        consume(client, name, "mine")

    def test_a_missing_queue_is_an_error(self, client: AmqpClient, name: str) -> None:
        client.send(Basic.Consume(queue=name))
        text = f"NOT_FOUND - no queue '{name}' in vhost '/'"
        expect_channel_error(client, 404, text, Basic.Consume)

    def test_no_wait_gets_no_consume_ok(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 1)
        client.send(Basic.Consume(queue=name, consumer_tag="mine", nowait=True))
        method = client.expect_delivery().method
        assert isinstance(method, Basic.Deliver)
        assert (method.consumer_tag, method.delivery_tag) == ("mine", 1)

    def test_a_delivery_names_consumer_tag_exchange_and_routing_key(
        self, client: AmqpClient, name: str
    ) -> None:
        client.declare(name)
        bind = Queue.Bind(queue=name, exchange="amq.topic", routing_key=f"{name}.*")
        client.call(bind, Queue.BindOk)
        consume(client, name, "mine")
        client.publish(b"", f"{name}.key", "amq.topic")
        method = client.expect_delivery().method
        assert isinstance(method, Basic.Deliver)
        assert (method.consumer_tag, method.delivery_tag, method.redelivered) == ("mine", 1, False)
        assert (method.exchange, method.routing_key) == ("amq.topic", f"{name}.key")

    def test_no_local_is_ignored(self, client: AmqpClient, name: str) -> None:
        client.declare(name)
        client.call(Basic.Consume(queue=name, no_local=True), Basic.ConsumeOk)
        client.publish(b"my own", name)
        assert client.expect_delivery().body == b"my own"

    def test_unknown_arguments_are_ignored(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 1)
        consume(client, name, arguments={"x-something": [1, {"else": None}], "plain": "text"})
        assert expect_bodies(client, 1) == [b"0"]

    @differs_from_3_10("406, unless it is a boolean for a consumer of a classic queue")
    @pytest.mark.parametrize("queue_type", ["classic", "quorum"])
    @pytest.mark.parametrize("value", ["yes", {}, None])
    def test_x_cancel_on_ha_failover_has_no_effect(
        self, client: AmqpClient, name: str, queue_type: str, value: object
    ) -> None:
        fill(client, name, 1, arguments={"x-queue-type": queue_type})
        consume(client, name, arguments={"x-cancel-on-ha-failover": value})
        assert expect_bodies(client, 1) == [b"0"]

    def test_consumers_are_counted(self, connect: Connect, name: str) -> None:
        client = connect(channels=2)
        client.declare(name)
        for channel in (1, 2, 2):
            consume(client, name, channel=channel)
        declared = client.call(Queue.Declare(queue=name, passive=True), Queue.DeclareOk)
        assert declared.consumer_count == 3


class TestCancelling:
    def test_an_unknown_tag_is_cancelled_too(self, client: AmqpClient) -> None:
        assert client.call(Basic.Cancel("nobody"), Basic.CancelOk).consumer_tag == "nobody"

    def test_no_wait_gets_no_cancel_ok(self, client: AmqpClient, name: str) -> None:
        client.declare(name)
        consume(client, name, "mine")
        client.send(Basic.Cancel("mine", nowait=True))
        declared = client.call(Queue.Declare(queue=name, passive=True), Queue.DeclareOk)
        assert declared.consumer_count == 0

    def test_nothing_is_delivered_after_cancel_ok(self, connect: Connect, name: str) -> None:
        client, publisher = connect(), connect(confirms=True)
        client.declare(name)
        consume(client, name, "mine")
        for number in range(BURST):
            publisher.publish(b"%d" % number, name)
        client.expect_delivery()
        client.send(Basic.Cancel("mine"))
        while True:  # deliveries that were on their way
            _, frame = client.receive()
            if isinstance(frame, Basic.CancelOk):
                break
        publisher.expect_confirmed()
        expect_quiet(client, name)
        client.call(Basic.Recover(requeue=True), Basic.RecoverOk)
        assert drain(client, name) == [b"%d" % number for number in range(BURST)]

    def test_unacknowledged_messages_of_a_cancelled_consumer_stay_with_the_channel(
        self, client: AmqpClient, name: str
    ) -> None:
        fill(client, name, 2)
        consume(client, name, "mine")
        expect_bodies(client, 2)
        client.call(Basic.Cancel("mine"), Basic.CancelOk)
        assert client.ready_count(name) == 0
        client.send(Basic.Ack(1))
        client.send(Basic.Nack(2, False, True))
        assert drain(client, name) == [b"1"]

    def test_the_others_go_on(self, client: AmqpClient, name: str) -> None:
        client.declare(name)
        consume(client, name, "one")
        consume(client, name, "other")
        client.call(Basic.Cancel("one"), Basic.CancelOk)
        for _ in range(3):
            client.publish(b"", name)
            assert client.expect_delivery().method.consumer_tag == "other"  # type: ignore[union-attr]

    def test_a_channel_that_consumed_closes_without_a_cancel(
        self, connect: Connect, name: str
    ) -> None:
        client, other = connect(capabilities={}), connect()
        other.declare(name)
        consume(client, name)
        other.call(Queue.Delete(queue=name), Queue.DeleteOk)
        client.call(Basic.Qos(), Basic.QosOk)  # no basic.cancel: the client cannot take it
