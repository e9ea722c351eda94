"""Requeued messages return to their place in the queue."""

import pytest
from pamqp.commands import Basic, Channel

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect
from tests.conformance.consuming import (
    consume,
    drain,
    expect_bodies,
    fill,
    prefetch,
    publish_all,
    take_unacked,
)
from tests.conformance.errors import expect_connection_error
from tests.conformance.marks import differs
from tests.conformance.queues import await_ready_count, leave


class TestPlace:
    @pytest.mark.parametrize(
        "method", [Basic.Nack(2, False, True), Basic.Reject(2, True)], ids=["nack", "reject"]
    )
    def test_a_requeued_message_takes_its_old_place(
        self, client: AmqpClient, name: str, method: Basic.Nack | Basic.Reject
    ) -> None:
        fill(client, name, 5)
        take_unacked(client, name, 3)
        client.send(method)
        assert drain(client, name) == [b"1", b"3", b"4"]

    def test_in_whatever_order_they_are_requeued_they_stand_as_before(
        self, client: AmqpClient, name: str
    ) -> None:
        fill(client, name, 6)
        take_unacked(client, name, 5)
        for tag in (4, 1, 5, 3):
            client.send(Basic.Reject(tag, True))
        assert drain(client, name) == [b"0", b"2", b"3", b"4", b"5"]

    def test_multiple_requeues_all_in_their_order(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 5)
        take_unacked(client, name, 4)
        client.send(Basic.Nack(3, True, True))
        assert drain(client, name) == [b"0", b"1", b"2", b"4"]

    def test_it_is_marked_redelivered_and_the_others_are_not(
        self, client: AmqpClient, name: str
    ) -> None:
        fill(client, name, 3)
        take_unacked(client, name, 2)
        client.send(Basic.Nack(2, False, True))
        seen = [client.get(name) for _ in range(2)]
        assert [each and (each.body, each.redelivered) for each in seen] == [
            (b"1", True),
            (b"2", False),
        ]

    def test_it_goes_to_another_consumer_that_has_room(self, connect: Connect, name: str) -> None:
        first, second = connect(), connect()
        fill(first, name, 1)
        prefetch(first, 1)
        consume(first, name, "first")
        delivered = first.expect_delivery()
        consume(second, name)
        first.call(Basic.Cancel("first"), Basic.CancelOk)
        first.send(Basic.Nack(delivered.tag, False, True))
        again = second.expect_delivery()
        assert (again.body, again.redelivered) == (b"0", True)

    def test_the_only_consumer_gets_it_again(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 2)
        prefetch(client, 1)
        consume(client, name)
        for _ in range(3):
            delivered = client.expect_delivery()
            assert delivered.body == b"0"
            client.send(Basic.Nack(delivered.tag, False, True))
        assert client.expect_delivery().tag == 4

    @differs(
        rabbitmq="drops the head first, which is what was requeued, and delivers the next",
        reason="what a consumer takes at once needs no room",
    )
    def test_a_full_queue_still_gives_it_to_a_consumer_that_has_room(
        self, connect: Connect, name: str
    ) -> None:
        client, publisher = connect(), connect()
        client.declare(name, arguments={"x-max-length": 2})
        prefetch(client, 1)
        consume(client, name)
        publish_all(publisher, name, [b"0", b"1", b"2"])
        client.send(Basic.Nack(client.expect_delivery().tag, False, True))
        assert client.expect_delivery().body == b"0"
        assert client.ready_count(name) == 2


class TestDropping:
    @pytest.mark.parametrize(
        "method",
        [Basic.Nack(0, True, False), Basic.Reject(1, False)],
        ids=["nack", "reject"],
    )
    def test_a_message_that_is_not_requeued_is_gone(
        self, client: AmqpClient, name: str, method: Basic.Nack | Basic.Reject
    ) -> None:
        fill(client, name, 1)
        take_unacked(client, name)
        client.send(method)
        client.call(Basic.Recover(requeue=True), Basic.RecoverOk)
        assert drain(client, name) == []


class TestRecover:
    def test_it_requeues_all_that_is_unacknowledged(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 5)
        take_unacked(client, name, 4)
        client.send(Basic.Ack(2))
        client.call(Basic.Recover(requeue=True), Basic.RecoverOk)
        seen = [client.get(name, no_ack=False) for _ in range(4)]
        assert [each and (each.tag, each.body, each.redelivered) for each in seen] == [
            (5, b"0", True),
            (6, b"2", True),
            (7, b"3", True),
            (8, b"4", False),
        ]

    def test_it_concerns_its_channel_only(self, connect: Connect, name: str) -> None:
        client = connect(channels=2)
        fill(client, name, 2)
        take_unacked(client, name)
        assert client.get(name, no_ack=False, channel=2) is not None
        client.call(Basic.Recover(requeue=True), Basic.RecoverOk)
        assert drain(client, name) == [b"0"]

    def test_a_consumer_gets_all_of_its_own_again(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 3)
        prefetch(client, 3)
        consume(client, name)
        expect_bodies(client, 3)
        client.call(Basic.Recover(requeue=True), Basic.RecoverOk)
        again = [client.expect_delivery() for _ in range(3)]
        assert [(each.tag, each.body, each.redelivered) for each in again] == [
            (4, b"0", True),
            (5, b"1", True),
            (6, b"2", True),
        ]

    def test_the_old_method_does_the_same_without_an_answer(
        self, client: AmqpClient, name: str
    ) -> None:
        fill(client, name, 2)
        take_unacked(client, name, 2)
        send_recover_async(client, requeue=True)
        assert drain(client, name) == [b"0", b"1"]

    def test_old_tags_are_unknown_after_a_recover(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 1)
        take_unacked(client, name)
        client.call(Basic.Recover(requeue=True), Basic.RecoverOk)
        client.send(Basic.Ack(1))
        client.expect_channel_close(406)

    def test_to_the_same_consumer_is_not_served(self, client: AmqpClient) -> None:
        client.send(Basic.Recover(requeue=False))
        expect_connection_error(client, 540, "NOT_IMPLEMENTED - requeue=false", Basic.Recover)

    def test_to_the_same_consumer_is_not_served_by_the_old_method_either(
        self, client: AmqpClient
    ) -> None:
        send_recover_async(client, requeue=False)
        text = "NOT_IMPLEMENTED - requeue=false"
        expect_connection_error(client, 540, text, Basic.RecoverAsync)


class TestLoss:
    def test_all_is_ready_again_before_a_channel_close_is_answered(
        self, connect: Connect, name: str
    ) -> None:
        client, onlooker = connect(), connect()
        fill(client, name, 20)
        for _ in range(5):
            prefetch(client, 0)
            consume(client, name)
            expect_bodies(client, 20)
            client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
            assert onlooker.ready_count(name) == 20
            client.open_channel()

    def test_all_is_ready_again_before_a_connection_close_is_answered(
        self, connect: Connect, name: str
    ) -> None:
        onlooker = connect()
        fill(onlooker, name, 20)
        for _ in range(5):
            client = connect()
            consume(client, name)
            expect_bodies(client, 20)
            leave(client)
            assert onlooker.ready_count(name) == 20

    def test_all_is_ready_again_after_a_connection_is_lost(
        self, connect: Connect, name: str
    ) -> None:
        client, onlooker = connect(), connect()
        fill(onlooker, name, 3)
        consume(client, name)
        expect_bodies(client, 3)
        client.socket.close()
        await_ready_count(onlooker, name, 3)
        seen = [onlooker.get(name) for _ in range(3)]
        assert [each and (each.body, each.redelivered) for each in seen] == [
            (b"0", True),
            (b"1", True),
            (b"2", True),
        ]

    def test_all_is_ready_again_after_a_channel_error(self, connect: Connect, name: str) -> None:
        client, onlooker = connect(), connect()
        fill(onlooker, name, 3)
        take_unacked(client, name, 2)
        client.send(Basic.Ack(9))
        client.expect_channel_close(406)
        await_ready_count(onlooker, name, 3)
        assert drain(onlooker, name) == [b"0", b"1", b"2"]


def send_recover_async(client: AmqpClient, *, requeue: bool) -> None:
    """Send what pamqp warns of, because it is deprecated."""
    client.send_method(Basic.RecoverAsync.index.to_bytes(4, "big") + bytes([requeue]))
