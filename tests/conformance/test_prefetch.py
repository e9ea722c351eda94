"""basic.qos limits the unacknowledged deliveries of a consumer or a channel."""

import pytest
from pamqp.commands import Basic, Channel

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import (
    consume,
    expect_bodies,
    expect_quiet,
    fill,
    prefetch,
    take_unacked,
)
from tests.conformance.errors import expect_connection_error
from tests.conformance.marks import differs
from tests.conformance.streams import (
    FIRST,
    declare_stream,
    expect_offsets,
    fill_stream,
    read_from,
)


def test_a_limit_in_octets_is_not_served(client: AmqpClient) -> None:
    client.send(Basic.Qos(prefetch_size=4096, prefetch_count=1))
    expect_connection_error(client, 540, "NOT_IMPLEMENTED - prefetch_size!=0 (4096)", Basic.Qos)


class TestPerConsumer:
    def test_a_consumer_has_no_more_unacknowledged_than_its_limit(
        self, client: AmqpClient, name: str
    ) -> None:
        fill(client, name, 6)
        prefetch(client, 3)
        consume(client, name)
        assert expect_bodies(client, 3) == [b"0", b"1", b"2"]
        expect_quiet(client, name)
        client.send(Basic.Ack(2))
        assert expect_bodies(client, 1) == [b"3"]
        expect_quiet(client, name)

    def test_each_consumer_has_its_own(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 6)
        prefetch(client, 2)
        consume(client, name, "one")
        expect_bodies(client, 2)
        prefetch(client, 1)
        consume(client, name, "two")
        assert client.expect_delivery().method.consumer_tag == "two"  # type: ignore[union-attr]
        expect_quiet(client, name)

    def test_zero_means_no_limit(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 100)
        prefetch(client, 0)
        consume(client, name)
        assert len(expect_bodies(client, 100)) == 100

    def test_consumers_without_acknowledgement_are_not_limited(
        self, client: AmqpClient, name: str
    ) -> None:
        fill(client, name, 10)
        prefetch(client, 1)
        consume(client, name, no_ack=True)
        assert len(expect_bodies(client, 10)) == 10

    def test_get_does_not_ask_it(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 4)
        prefetch(client, 1)
        consume(client, name)
        expect_bodies(client, 1)
        assert take_unacked(client, name, 3) == [b"1", b"2", b"3"]

    def test_get_does_not_use_it_up(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 4)
        prefetch(client, 1)
        take_unacked(client, name, 3)
        consume(client, name)
        assert expect_bodies(client, 1) == [b"3"]

    @pytest.mark.parametrize("count", [0, 1, 4])
    def test_a_new_limit_is_for_consumers_that_begin_later(
        self, client: AmqpClient, name: str, count: int
    ) -> None:
        fill(client, name, 9)
        prefetch(client, 2)
        consume(client, name, "one")
        expect_bodies(client, 2)
        prefetch(client, count)
        expect_quiet(client, name)
        client.send(Basic.Ack(1))
        assert expect_bodies(client, 1) == [b"2"]
        expect_quiet(client, name)
        consume(client, name, "two")
        assert len(expect_bodies(client, count or 6)) == (count or 6)
        expect_quiet(client, name)

    def test_consumers_of_one_channel_may_have_different_limits(
        self, client: AmqpClient, new_name: NewName
    ) -> None:
        limits = (1, 3, 2)
        queues = [new_name() for _ in limits]
        for queue in queues:
            fill(client, queue, 5)
        for queue, count in zip(queues, limits, strict=True):
            prefetch(client, count)
            consume(client, queue)
            expect_bodies(client, count)
            expect_quiet(client, queue)
        # Each keeps its own, whatever came later: three answers, three new ones.
        client.send(Basic.Ack(3, multiple=True))
        assert sorted(expect_bodies(client, 3)) == [b"1", b"3", b"4"]
        for queue in queues:
            expect_quiet(client, queue)

    def test_a_stream_keeps_the_limit_that_its_consumer_began_with(
        self, client: AmqpClient, name: str
    ) -> None:
        declare_stream(client, name)
        fill_stream(client, name, 6)
        read_from(client, name, FIRST, count=2)
        expect_offsets(client, 2)
        prefetch(client, 4)
        client.send(Basic.Ack(1))
        assert expect_offsets(client, 1) == [2]
        expect_quiet(client, name)

    @differs(
        rabbitmq="only for consumers that begin later",
        reason="Celery, which speaks through py-amqp, raises the limit of running consumers this "
        "way, with any product but RabbitMQ",
    )
    def test_a_new_limit_of_py_amqp_is_for_running_consumers_too(
        self, connect: Connect, name: str
    ) -> None:
        client = connect(properties={"product": "py-amqp"})
        fill(client, name, 6)
        prefetch(client, 2)
        consume(client, name)
        expect_bodies(client, 2)
        prefetch(client, 4)
        assert expect_bodies(client, 2) == [b"2", b"3"]
        expect_quiet(client, name)

    def test_another_channel_has_its_own(self, connect: Connect, name: str) -> None:
        client = connect(channels=2)
        fill(client, name, 6)
        prefetch(client, 2)
        consume(client, name, channel=2)
        assert len(expect_bodies(client, 6, channel=2)) == 6

    def test_a_reopened_channel_has_none(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 6)
        prefetch(client, 1)
        prefetch(client, 1, globally=True)
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
        client.open_channel()
        consume(client, name)
        assert len(expect_bodies(client, 6)) == 6


class TestGlobal:
    """`global`: one limit for all consumers of the channel."""

    def test_consumers_share_it(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 6)
        prefetch(client, 3, globally=True)
        consume(client, name, "one")
        expect_bodies(client, 3)
        consume(client, name, "two")
        expect_quiet(client, name)
        client.send(Basic.Ack(1))
        assert expect_bodies(client, 1) == [b"3"]
        expect_quiet(client, name)

    def test_it_is_for_running_consumers_too(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 6)
        prefetch(client, 2, globally=True)
        consume(client, name)
        expect_bodies(client, 2)
        prefetch(client, 4, globally=True)
        assert expect_bodies(client, 2) == [b"2", b"3"]
        expect_quiet(client, name)

    def test_a_lower_one_holds_back_until_enough_is_acknowledged(
        self, client: AmqpClient, name: str
    ) -> None:
        fill(client, name, 6)
        prefetch(client, 3, globally=True)
        consume(client, name)
        expect_bodies(client, 3)
        prefetch(client, 1, globally=True)
        client.send(Basic.Ack(2, True))
        expect_quiet(client, name)
        client.send(Basic.Ack(3))
        assert expect_bodies(client, 1) == [b"3"]
        expect_quiet(client, name)

    def test_zero_ends_it(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 6)
        prefetch(client, 1, globally=True)
        consume(client, name)
        expect_bodies(client, 1)
        prefetch(client, 0, globally=True)
        assert len(expect_bodies(client, 5)) == 5

    def test_both_limits_hold(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 8)
        prefetch(client, 2)
        prefetch(client, 3, globally=True)
        consume(client, name, "one")
        expect_bodies(client, 2)
        expect_quiet(client, name)
        consume(client, name, "two")
        expect_bodies(client, 1)
        expect_quiet(client, name)

    def test_one_per_consumer_set_later_ends_it(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 8)
        prefetch(client, 3, globally=True)
        prefetch(client, 2)
        consume(client, name, "one")
        expect_bodies(client, 2)
        consume(client, name, "two")
        expect_bodies(client, 2)
        expect_quiet(client, name)

    def test_consumers_without_acknowledgement_are_not_limited(
        self, client: AmqpClient, name: str
    ) -> None:
        fill(client, name, 6)
        prefetch(client, 1, globally=True)
        consume(client, name, no_ack=True)
        assert len(expect_bodies(client, 6)) == 6

    def test_a_consumer_without_acknowledgement_waits_while_the_limit_is_reached(
        self, client: AmqpClient, name: str
    ) -> None:
        fill(client, name, 3)
        prefetch(client, 1, globally=True)
        consume(client, name)
        expect_bodies(client, 1)
        consume(client, name, no_ack=True)
        expect_quiet(client, name)
        client.send(Basic.Ack(1))
        assert expect_bodies(client, 1) == [b"1"]

    def test_get_does_not_ask_it(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 4)
        prefetch(client, 1, globally=True)
        consume(client, name)
        expect_bodies(client, 1)
        assert take_unacked(client, name, 3) == [b"1", b"2", b"3"]

    def test_messages_taken_with_get_are_not_counted(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 6)
        prefetch(client, 1, globally=True)
        take_unacked(client, name, 2)
        consume(client, name)
        assert expect_bodies(client, 1) == [b"2"]
        client.send(Basic.Ack(1))
        expect_quiet(client, name)
        client.send(Basic.Ack(3))
        assert expect_bodies(client, 1) == [b"3"]
        expect_quiet(client, name)

    def test_messages_that_arrive_together_do_not_exceed_it(
        self, connect: Connect, client: AmqpClient, name: str
    ) -> None:
        publisher = connect(confirms=True)
        publisher.declare(name)
        prefetch(client, 10, globally=True)
        consume(client, name, "one")
        consume(client, name, "two")
        method = Basic.Publish(routing_key=name)
        publisher.send_raw(publisher.publish_octets(method, b"", Basic.Properties()) * 12)
        publisher.published[1] += 12
        publisher.expect_confirmed()
        expect_bodies(client, 10)
        expect_quiet(client, name)

    @differs(
        rabbitmq="540: `queue 'q' in vhost '/' does not support global qos`",
        reason="there is no reason to refuse it",
    )
    def test_it_holds_for_a_quorum_queue(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 4, arguments={"x-queue-type": "quorum"})
        prefetch(client, 2, globally=True)
        consume(client, name)
        expect_bodies(client, 2)
        expect_quiet(client, name)
