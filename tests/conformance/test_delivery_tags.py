"""Each delivery of a channel has a tag, which the client may settle once."""

import pytest
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import (
    consume,
    drain,
    expect_bodies,
    fill,
    prefetch,
    take_unacked,
)
from tests.conformance.errors import expect_channel_error
from tests.conformance.polling import eventually
from tests.conformance.queues import take

Settling = Basic.Ack | Basic.Nack | Basic.Reject


class TestCounting:
    def test_tags_count_from_one_on_each_channel(self, connect: Connect, name: str) -> None:
        client = connect(channels=2)
        fill(client, name, 4)
        tags = [take_tag(client, name, channel) for channel in (1, 2, 2, 1)]
        assert tags == [1, 1, 2, 2]

    def test_deliveries_without_acknowledgement_use_tags_too(
        self, client: AmqpClient, name: str
    ) -> None:
        fill(client, name, 6)
        assert take_tag(client, name) == 1
        assert take_tag(client, name, no_ack=False) == 2
        consume(client, name, no_ack=True)
        assert [client.expect_delivery().tag for _ in range(4)] == [3, 4, 5, 6]

    def test_an_empty_get_is_not_counted(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 0)
        assert client.get(name) is None
        client.publish(b"", name)
        assert take(client, name).tag == 1

    def test_consumers_of_a_channel_share_its_tags(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 4)
        prefetch(client, 2)
        consume(client, name, "one")
        tags = [client.expect_delivery().tag for _ in range(2)]
        consume(client, name, "two")
        tags += [client.expect_delivery().tag for _ in range(2)]
        assert tags == [1, 2, 3, 4]


class TestUnknownTags:
    @pytest.mark.parametrize(
        "method",
        [
            Basic.Ack(7),
            Basic.Ack(7, True),
            Basic.Nack(7),
            Basic.Nack(7, True),
            Basic.Reject(7),
            Basic.Ack(0),
            Basic.Nack(0),
            Basic.Reject(0),
        ],
        ids=[
            "ack", "ack multiple", "nack", "nack multiple", "reject", "ack 0", "nack 0", "reject 0"
        ],
    )  # fmt: skip
    def test_a_tag_that_is_not_outstanding_closes_the_channel(
        self, client: AmqpClient, method: Settling
    ) -> None:
        client.send(method)
        text = f"PRECONDITION_FAILED - unknown delivery tag {method.delivery_tag}"
        expect_channel_error(client, 406, text, type(method))

    @pytest.mark.parametrize("method", [Basic.Ack(0, True), Basic.Nack(0, True)])
    def test_multiple_without_outstanding_deliveries_is_no_error(
        self, client: AmqpClient, method: Basic.Ack | Basic.Nack
    ) -> None:
        client.send(method)
        client.call(Basic.Qos(), Basic.QosOk)

    def test_a_tag_is_settled_once(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 1)
        take_unacked(client, name)
        client.send(Basic.Ack(1))
        client.send(Basic.Ack(1))
        text = "PRECONDITION_FAILED - unknown delivery tag 1"
        expect_channel_error(client, 406, text, Basic.Ack)

    def test_deliveries_without_acknowledgement_cannot_be_acknowledged(
        self, client: AmqpClient, name: str
    ) -> None:
        fill(client, name, 1)
        assert client.get(name) is not None
        client.send(Basic.Ack(1))
        text = "PRECONDITION_FAILED - unknown delivery tag 1"
        expect_channel_error(client, 406, text, Basic.Ack)

    def test_multiple_beyond_the_last_tag_settles_nothing(
        self, connect: Connect, name: str
    ) -> None:
        client, onlooker = connect(), connect()
        fill(client, name, 2)
        take_unacked(client, name, 2)
        client.send(Basic.Ack(3, True))
        text = "PRECONDITION_FAILED - unknown delivery tag 3"
        expect_channel_error(client, 406, text, Basic.Ack)
        assert eventually(lambda: onlooker.ready_count(name) == 2)

    def test_multiple_needs_a_tag_that_is_outstanding_itself(
        self, client: AmqpClient, name: str
    ) -> None:
        fill(client, name, 3)
        take_unacked(client, name, 3)
        client.send(Basic.Ack(2))
        client.send(Basic.Ack(2, True))
        text = "PRECONDITION_FAILED - unknown delivery tag 2"
        expect_channel_error(client, 406, text, Basic.Ack)

    def test_a_tag_of_another_channel_is_unknown(self, connect: Connect, name: str) -> None:
        client = connect(channels=2)
        fill(client, name, 1)
        take_unacked(client, name)
        client.send(Basic.Ack(1), 2)
        text = "PRECONDITION_FAILED - unknown delivery tag 1"
        expect_channel_error(client, 406, text, Basic.Ack, 2)


class TestMultiple:
    def test_it_settles_all_up_to_the_tag(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 5)
        take_unacked(client, name, 5)
        client.send(Basic.Ack(3, True))
        requeue_the_rest(client)
        assert drain(client, name) == [b"3", b"4"]

    def test_multiple_with_tag_zero_settles_all(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 5)
        take_unacked(client, name, 4)
        client.send(Basic.Ack(0, True))
        requeue_the_rest(client)
        assert drain(client, name) == [b"4"]

    def test_multiple_skips_settled_deliveries(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 5)
        take_unacked(client, name, 5)
        client.send(Basic.Ack(2))
        client.send(Basic.Ack(4, True))
        requeue_the_rest(client)
        assert drain(client, name) == [b"4"]

    def test_it_gives_back_the_credit_of_all(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 20)
        prefetch(client, 5)
        consume(client, name)
        expect_bodies(client, 5)
        client.send(Basic.Ack(5, True))
        assert expect_bodies(client, 5) == [b"5", b"6", b"7", b"8", b"9"]
        client.send(Basic.Ack(0, True))
        assert expect_bodies(client, 5) == [b"10", b"11", b"12", b"13", b"14"]
        client.send(Basic.Nack(15, True, False))
        assert expect_bodies(client, 5) == [b"15", b"16", b"17", b"18", b"19"]

    def test_it_gives_back_the_credit_of_each_consumer(
        self, client: AmqpClient, new_name: NewName
    ) -> None:
        one, other = new_name(), new_name()
        fill(client, one, 4)
        fill(client, other, 4)
        prefetch(client, 2)
        consume(client, one)
        expect_bodies(client, 2)
        consume(client, other)
        expect_bodies(client, 2)
        client.send(Basic.Ack(4, True))
        assert sorted(expect_bodies(client, 4)) == [b"2", b"2", b"3", b"3"]

    def test_nack_drops_all_up_to_the_tag(self, client: AmqpClient, name: str) -> None:
        fill(client, name, 4)
        take_unacked(client, name, 4)
        client.send(Basic.Nack(3, True, False))
        requeue_the_rest(client)
        assert drain(client, name) == [b"3"]


def take_tag(client: AmqpClient, queue: str, channel: int = 1, *, no_ack: bool = True) -> int:
    """Take a message and return its tag."""
    message = client.get(queue, no_ack=no_ack, channel=channel)
    assert message is not None
    return message.tag


def requeue_the_rest(client: AmqpClient) -> None:
    """Make what is still unacknowledged on channel 1 ready again."""
    client.call(Basic.Recover(requeue=True), Basic.RecoverOk)
