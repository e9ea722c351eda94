"""Direct reply-to: replies reach a client without a queue, through `amq.rabbitmq.reply-to`."""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Queue, Tx

from tests.amqp_client import AmqpClient, AnyDeclare, AnyPublish, Message
from tests.conformance.conftest import Connect
from tests.conformance.consuming import consume
from tests.conformance.errors import expect_channel_error, expect_connection_error
from tests.conformance.marks import differs_from_3_10
from tests.conformance.queues import leave

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture
def requester(connect: Connect) -> AmqpClient:
    """Open a connection that consumes replies on channel 1."""
    client = connect()
    consume(client, REPLY_TO, "replies", no_ack=True)
    return client


@pytest.fixture
def responder(connect: Connect, name: str) -> AmqpClient:
    """Open a connection with confirms that has declared the queue for requests."""
    client = connect(confirms=True)
    client.declare(name)
    return client


def ask(requester: AmqpClient, responder: AmqpClient, name: str, channel: int = 1) -> Message:
    """Publish a request and return it as the responder gets it."""
    properties = Basic.Properties(reply_to=REPLY_TO, correlation_id="c", headers={"h": 1})
    requester.publish(b"question", name, properties=properties, channel=channel)
    responder.call(Basic.Consume(queue=name, no_ack=True), Basic.ConsumeOk)
    request = responder.expect_delivery()
    cancelled = request.method
    assert isinstance(cancelled, Basic.Deliver)
    assert cancelled.consumer_tag
    responder.call(Basic.Cancel(cancelled.consumer_tag), Basic.CancelOk)
    return request


def reply_address(request: Message) -> str:
    assert request.properties.reply_to
    return request.properties.reply_to


def cancel(requester: AmqpClient) -> None:
    requester.call(Basic.Cancel("replies"), Basic.CancelOk)


def close_channel(requester: AmqpClient) -> None:
    requester.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)


End = Callable[[AmqpClient], None]
ENDS: list[End] = [cancel, close_channel, leave]
"""How a consumer of replies ends."""


class TestConsumer:
    def test_it_cannot_acknowledge(self, client: AmqpClient) -> None:
        client.send(Basic.Consume(queue=REPLY_TO))
        text = "PRECONDITION_FAILED - reply consumer cannot acknowledge"
        expect_channel_error(client, 406, text, Basic.Consume)

    def test_a_channel_has_one(self, requester: AmqpClient) -> None:
        requester.send(Basic.Consume(queue=REPLY_TO, no_ack=True))
        text = "PRECONDITION_FAILED - reply consumer already set"
        expect_channel_error(requester, 406, text, Basic.Consume)

    def test_it_gets_a_tag_when_it_has_none(self, client: AmqpClient) -> None:
        assert re.fullmatch("amq.ctag-[A-Za-z0-9_-]{22}", consume(client, REPLY_TO, no_ack=True))

    def test_its_tag_must_be_free(self, client: AmqpClient, name: str) -> None:
        client.declare(name)
        consume(client, name, "mine")
        client.send(Basic.Consume(queue=REPLY_TO, no_ack=True, consumer_tag="mine"))
        text = "NOT_ALLOWED - attempt to reuse consumer tag 'mine'"
        expect_connection_error(client, 530, text, Basic.Consume)

    def test_no_wait_gets_no_answer(self, client: AmqpClient) -> None:
        client.send(Basic.Consume(queue=REPLY_TO, no_ack=True, nowait=True))
        client.call(Basic.Qos(), Basic.QosOk)

    def test_it_may_be_cancelled_and_another_begun(self, requester: AmqpClient) -> None:
        requester.call(Basic.Cancel("replies"), Basic.CancelOk)
        consume(requester, REPLY_TO, "more", no_ack=True)

    def test_each_channel_has_its_own(
        self, connect: Connect, responder: AmqpClient, name: str
    ) -> None:
        client = connect(channels=2)
        consume(client, REPLY_TO, "first", no_ack=True, channel=1)
        consume(client, REPLY_TO, "second", no_ack=True, channel=2)
        addresses = [reply_address(ask(client, responder, name, channel)) for channel in (1, 2)]
        assert addresses[0] != addresses[1]
        for channel, tag in ((2, "second"), (1, "first")):
            responder.publish(b"", addresses[channel - 1])
            method = client.expect_delivery(channel).method
            assert isinstance(method, Basic.Deliver)
            assert method.consumer_tag == tag


class TestRequest:
    def test_it_needs_a_consumer(self, client: AmqpClient, name: str) -> None:
        client.publish(b"", name, properties=Basic.Properties(reply_to=REPLY_TO))
        text = "PRECONDITION_FAILED - fast reply consumer does not exist"
        expect_channel_error(client, 406, text, Basic.Publish)

    def test_a_missing_reply_consumer_is_reported_before_other_properties(
        self, client: AmqpClient, name: str
    ) -> None:
        properties = Basic.Properties(reply_to=REPLY_TO, user_id="x", expiration="x")
        client.publish(b"", name, properties=properties)
        text = "PRECONDITION_FAILED - fast reply consumer does not exist"
        expect_channel_error(client, 406, text, Basic.Publish)

    def test_it_needs_one_that_is_not_cancelled(self, requester: AmqpClient, name: str) -> None:
        requester.call(Basic.Cancel("replies"), Basic.CancelOk)
        requester.publish(b"", name, properties=Basic.Properties(reply_to=REPLY_TO))
        text = "PRECONDITION_FAILED - fast reply consumer does not exist"
        expect_channel_error(requester, 406, text, Basic.Publish)

    def test_it_needs_one_on_the_same_channel(self, connect: Connect, name: str) -> None:
        client = connect(channels=2)
        consume(client, REPLY_TO, no_ack=True, channel=2)
        client.publish(b"", name, properties=Basic.Properties(reply_to=REPLY_TO))
        text = "PRECONDITION_FAILED - fast reply consumer does not exist"
        expect_channel_error(client, 406, text, Basic.Publish)

    def test_its_reply_to_is_an_address_and_the_rest_is_unchanged(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        request = ask(requester, responder, name)
        assert reply_address(request).startswith(f"{REPLY_TO}.")
        assert request.properties.correlation_id == "c"
        assert request.properties.headers == {"h": 1}
        assert request.body == b"question"

    def test_its_address_has_two_parts_in_base64(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        prefix, process, key = reply_address(ask(requester, responder, name)).rsplit(".", 2)
        assert prefix == REPLY_TO
        for part in (process, key):
            assert b64encode(b64decode(part, validate=True)).decode() == part
        assert len(b64decode(key)) == 16

    def test_every_request_has_the_same_address(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        first, second = (reply_address(ask(requester, responder, name)) for _ in range(2))
        assert first == second

    def test_another_reply_to_is_left_alone(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        requester.publish(b"", name, properties=Basic.Properties(reply_to="mine"))
        consume(responder, name, no_ack=True)
        assert responder.expect_delivery().properties.reply_to == "mine"


class TestReply:
    def test_it_is_delivered_to_the_consumer(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        address = reply_address(ask(requester, responder, name))
        properties = Basic.Properties(correlation_id="c")
        responder.publish(b"answer", address, properties=properties)
        responder.expect_confirmed()
        reply = requester.expect_delivery()
        method = reply.method
        assert isinstance(method, Basic.Deliver)
        assert (method.consumer_tag, method.delivery_tag) == ("replies", 1)
        assert (method.exchange, method.routing_key) == ("", address)
        assert not method.redelivered
        assert (reply.body, reply.properties.correlation_id) == (b"answer", "c")

    def test_replies_that_are_sent_together_keep_their_order(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        method = AnyPublish(0, "", reply_address(ask(requester, responder, name)))
        responder.send_raw(
            b"".join(
                responder.publish_octets(method, b"%d" % number, Basic.Properties())
                for number in range(500)
            )
        )
        responder.published[1] += 500
        replies = [requester.expect_delivery() for _ in range(500)]
        assert [reply.body for reply in replies] == [b"%d" % number for number in range(500)]
        responder.expect_confirmed()

    @differs_from_3_10("uses no tag up: all have that of the next delivery, up to 4.1")
    def test_each_has_a_delivery_tag_of_its_own(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        address = reply_address(ask(requester, responder, name))
        for _ in range(3):
            responder.publish(b"", address)
        assert [requester.expect_delivery().tag for _ in range(3)] == [1, 2, 3]

    def test_one_may_be_sent_as_a_blind_copy(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        address = reply_address(ask(requester, responder, name))
        headers: Any = {"BCC": [address], "other": "kept"}
        responder.publish(b"copy", f"{name}?", properties=Basic.Properties(headers=headers))
        responder.expect_confirmed()
        reply = requester.expect_delivery()
        assert (reply.body, reply.properties.headers) == (b"copy", {"other": "kept"})

    def test_a_large_one_comes_whole(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        address = reply_address(ask(requester, responder, name))
        responder.publish(b"0123456789" * 50_000, address)
        assert requester.expect_delivery().body == b"0123456789" * 50_000

    @differs_from_3_10("returns the reply that it delivers, as all versions up to 4.1")
    def test_a_mandatory_one_that_arrives_does_not_come_back(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        address = reply_address(ask(requester, responder, name))
        responder.publish(b"answer", address, mandatory=True)
        responder.expect_confirmed()
        assert requester.expect_delivery().body == b"answer"

    def test_one_that_comes_too_late_is_lost(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        address = reply_address(ask(requester, responder, name))
        requester.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
        responder.publish(b"late", address)
        responder.expect_confirmed()
        requester.open_channel()
        consume(requester, REPLY_TO, "replies", no_ack=True)
        requester.call(Basic.Qos(), Basic.QosOk)

    @pytest.mark.parametrize("end", ENDS)
    def test_a_mandatory_one_that_comes_too_late_comes_back(
        self, requester: AmqpClient, responder: AmqpClient, name: str, end: End
    ) -> None:
        address = reply_address(ask(requester, responder, name))
        end(requester)
        responder.publish(b"lost", address)
        responder.expect_confirmed()
        responder.publish(b"late", address, mandatory=True)
        assert responder.expect_return().body == b"late"
        responder.expect_confirmed()

    @differs_from_3_10("sends it at once")
    def test_one_of_a_transaction_comes_with_the_commit(
        self, connect: Connect, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        address = reply_address(ask(requester, responder, name))
        client = connect()
        client.call(Tx.Select(), Tx.SelectOk)
        client.publish(b"dropped", address)
        client.call(Tx.Rollback(), Tx.RollbackOk)
        client.publish(b"committed", address)
        client.call(Channel.Flow(active=True), Channel.FlowOk)
        requester.call(Basic.Qos(), Basic.QosOk)  # and no delivery before
        client.call(Tx.Commit(), Tx.CommitOk)
        assert requester.expect_delivery().body == b"committed"

    @pytest.mark.parametrize("ending", ["", ".", ".nonsense"])
    def test_an_invalid_address_has_no_queue(self, responder: AmqpClient, ending: str) -> None:
        responder.publish(b"", REPLY_TO + ending, mandatory=True)
        responder.expect_return()

    def test_an_address_with_one_octet_changed_has_no_queue(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        address = reply_address(ask(requester, responder, name))
        responder.publish(b"", address[:-4] + "AAAA", mandatory=True)
        responder.expect_return()
        requester.call(Basic.Qos(), Basic.QosOk)

    def test_it_goes_through_the_default_exchange_only(
        self, requester: AmqpClient, responder: AmqpClient, name: str
    ) -> None:
        address = reply_address(ask(requester, responder, name))
        responder.publish(b"", address, "amq.direct", mandatory=True)
        responder.expect_return()
        requester.call(Basic.Qos(), Basic.QosOk)


class TestDeclaring:
    def test_the_common_name_exists_for_every_client(self, client: AmqpClient) -> None:
        declared = client.call(Queue.Declare(queue=REPLY_TO, passive=True), Queue.DeclareOk)
        assert (declared.queue, declared.message_count, declared.consumer_count) == (REPLY_TO, 0, 1)

    @pytest.mark.parametrize("end", ENDS)
    def test_an_address_exists_as_long_as_its_consumer(
        self, requester: AmqpClient, responder: AmqpClient, name: str, end: End
    ) -> None:
        address = reply_address(ask(requester, responder, name))
        for passive in (True, False):
            declare = AnyDeclare(queue=address, passive=passive)
            declared = responder.call(declare, Queue.DeclareOk)
            assert declared.queue == address
            assert (declared.message_count, declared.consumer_count) == (0, 1)
        end(requester)
        responder.send(AnyDeclare(queue=address, passive=True))
        text = f"NOT_FOUND - no queue '{address}' in vhost '/'"
        expect_channel_error(responder, 404, text, Queue.Declare)

    @pytest.mark.parametrize("passive", [True, False])
    @pytest.mark.parametrize("ending", [".nonsense", "x"])
    def test_an_invalid_address_is_not_found(
        self, client: AmqpClient, ending: str, passive: bool
    ) -> None:
        address = REPLY_TO + ending
        client.send(Queue.Declare(queue=address, passive=passive))
        text = f"NOT_FOUND - no queue '{address}' in vhost '/'"
        expect_channel_error(client, 404, text, Queue.Declare)

    def test_declaring_the_name_makes_no_queue(self, client: AmqpClient) -> None:
        declared = client.call(Queue.Declare(queue=REPLY_TO), Queue.DeclareOk)
        assert (declared.queue, declared.message_count, declared.consumer_count) == (REPLY_TO, 0, 1)
        client.send(Basic.Get(queue=REPLY_TO))
        text = f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'"
        expect_channel_error(client, 404, text, Basic.Get)

    def test_it_cannot_be_purged(self, client: AmqpClient) -> None:
        client.send(Queue.Purge(queue=REPLY_TO))
        text = f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'"
        expect_channel_error(client, 404, text, Queue.Purge)

    def test_it_cannot_be_bound(self, client: AmqpClient) -> None:
        client.send(Queue.Bind(queue=REPLY_TO, exchange="amq.direct", routing_key="key"))
        text = f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'"
        expect_channel_error(client, 404, text, Queue.Bind)

    def test_deleting_it_deletes_nothing(self, requester: AmqpClient, client: AmqpClient) -> None:
        deleted = client.call(Queue.Delete(queue=REPLY_TO), Queue.DeleteOk)
        assert deleted.message_count == 0
        requester.call(Basic.Qos(), Basic.QosOk)
