"""Direct reply-to on a real server: answers without a queue, and what is refused on the way."""

from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Queue

from tests.amqp_client import AmqpClient, Message, connect
from tests.servers import RunningServer

REPLY_TO = "amq.rabbitmq.reply-to"
ASKING = Basic.Properties(reply_to=REPLY_TO, correlation_id="7", headers={"a": 1})


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


class PassiveDeclare(Queue.Declare):
    """A declare of any name: keys of askers have characters that pamqp does not let pass."""

    def validate(self) -> None:
        """Let every name pass."""


@pytest.fixture
def asker(server: RunningServer) -> Iterator[AmqpClient]:
    """A client that consumes answers and has the queue `q` to ask."""
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.consume(REPLY_TO, no_ack=True)
        yield client


@pytest.fixture
def server_client(server: RunningServer) -> Iterator[AmqpClient]:
    """A client that answers, with confirms."""
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        yield client


def asked(asker: AmqpClient, answering: AmqpClient) -> Message:
    asker.publish(b"question", "q", properties=ASKING)
    answering.consume("q", no_ack=True)
    message = answering.expect_delivery()
    answering.call(Basic.Cancel(consumer_tag=tag_of(message)), Basic.CancelOk)
    return message


def tag_of(message: Message) -> str:
    assert isinstance(message.method, Basic.Deliver)
    assert message.method.consumer_tag is not None
    return message.method.consumer_tag


def reply_key(asker: AmqpClient, answering: AmqpClient) -> str:
    key = asked(asker, answering).properties.reply_to
    assert key is not None
    return key


def test_a_question_carries_a_key_of_its_channel_and_is_otherwise_as_it_was(
    asker: AmqpClient, server_client: AmqpClient
) -> None:
    question = asked(asker, server_client)

    assert question.properties.reply_to is not None
    assert question.properties.reply_to.startswith(REPLY_TO + ".")
    assert len(question.properties.reply_to) > len(REPLY_TO) + 20
    assert question.properties.correlation_id == "7"
    assert question.properties.headers == {"a": 1}
    assert question.body == b"question"


def test_every_channel_has_another_key(asker: AmqpClient, server_client: AmqpClient) -> None:
    first = reply_key(asker, server_client)
    asker.open_channel(2)
    asker.consume(REPLY_TO, no_ack=True, channel=2)
    asker.publish(b"question", "q", properties=ASKING, channel=2)
    server_client.consume("q", no_ack=True)

    assert server_client.expect_delivery().properties.reply_to != first


def test_an_answer_comes_as_a_delivery_of_the_consumer(
    asker: AmqpClient, server_client: AmqpClient
) -> None:
    key = reply_key(asker, server_client)

    server_client.publish(b"answer", key, properties=Basic.Properties(correlation_id="7"))
    server_client.expect_confirmed()

    answer = asker.expect_delivery()
    assert answer.body == b"answer"
    assert answer.tag == 1
    assert not answer.redelivered
    assert isinstance(answer.method, Basic.Deliver)
    assert (answer.method.exchange, answer.method.routing_key) == ("", key)
    assert answer.properties.correlation_id == "7"


def test_answers_in_one_run_come_all_and_in_order(
    asker: AmqpClient, server_client: AmqpClient
) -> None:
    method = Basic.Publish(0, "", reply_key(asker, server_client), mandatory=True)
    octets = b"".join(
        server_client.publish_octets(method, b"%d" % at, Basic.Properties()) for at in range(500)
    )
    server_client.send_raw(octets)

    answers = [asker.expect_delivery() for _ in range(500)]

    assert [answer.body for answer in answers] == [b"%d" % at for at in range(500)]
    assert [answer.tag for answer in answers] == list(range(1, 501))
    server_client.published[1] = 500
    server_client.expect_confirmed()


def test_an_answer_by_carbon_copy(asker: AmqpClient, server_client: AmqpClient) -> None:
    key = reply_key(asker, server_client)

    headers: Any = {"BCC": [key], "b": "kept"}
    server_client.publish(
        b"copy", "nobody", properties=Basic.Properties(headers=headers), mandatory=True
    )

    answer = asker.expect_delivery()
    assert answer.body == b"copy"
    assert answer.properties.headers == {"b": "kept"}
    server_client.expect_confirmed()


def test_another_exchange_knows_no_askers(asker: AmqpClient, server_client: AmqpClient) -> None:
    key = reply_key(asker, server_client)

    server_client.publish(b"lost", key, "amq.direct", mandatory=True)

    assert server_client.expect_return().body == b"lost"
    server_client.expect_confirmed()


def end_by_cancel(asker: AmqpClient) -> None:
    asker.call(Basic.Cancel(consumer_tag="mine"), Basic.CancelOk)


def end_by_channel(asker: AmqpClient) -> None:
    asker.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)


def end_by_connection(asker: AmqpClient) -> None:
    asker.close()


@pytest.mark.parametrize("end", [end_by_cancel, end_by_channel, end_by_connection])
def test_an_answer_to_someone_who_is_gone_is_unroutable(
    server: RunningServer, server_client: AmqpClient, end: object
) -> None:
    with connect(server.address) as asker:
        asker.open_channel()
        asker.declare("q")
        consume = Basic.Consume(queue=REPLY_TO, no_ack=True, consumer_tag="mine")
        asker.call(consume, Basic.ConsumeOk)
        key = reply_key(asker, server_client)
        server_client.call(PassiveDeclare(queue=key, passive=True), Queue.DeclareOk)
        assert callable(end)
        end(asker)

        server_client.publish(b"dropped", key)
        server_client.expect_confirmed()
        server_client.publish(b"returned", key, mandatory=True)
        assert server_client.expect_return().body == b"returned"
        server_client.expect_confirmed()

        server_client.send(PassiveDeclare(queue=key, passive=True))
        close = server_client.expect_channel_close(404)
        assert close.reply_text == f"NOT_FOUND - no queue '{key}' in vhost '/'"
        assert (close.class_id, close.method_id) == (50, 10)


def test_whoever_cancelled_may_consume_again(asker: AmqpClient) -> None:
    asker.open_channel(2)
    for _ in range(2):
        consumed = asker.call(Basic.Consume(queue=REPLY_TO, no_ack=True), Basic.ConsumeOk, 2)
        assert consumed.consumer_tag is not None
        assert consumed.consumer_tag.startswith("amq.ctag-")
        asker.call(Basic.Cancel(consumer_tag=consumed.consumer_tag), Basic.CancelOk, 2)


@pytest.mark.parametrize("passive", [True, False])
def test_a_declare_tells_whether_an_asker_is_there(
    asker: AmqpClient, server_client: AmqpClient, passive: bool
) -> None:
    key = reply_key(asker, server_client)

    for name in (key, REPLY_TO):
        declare = PassiveDeclare(queue=name, passive=passive)
        declared = server_client.call(declare, Queue.DeclareOk)
        assert (declared.queue, declared.message_count, declared.consumer_count) == (name, 0, 1)


@pytest.mark.parametrize("name", [REPLY_TO + ".unknown", REPLY_TO + "x"])
def test_a_declare_of_a_name_that_nobody_has_is_refused(
    server_client: AmqpClient, name: str
) -> None:
    server_client.send(PassiveDeclare(queue=name))

    close = server_client.expect_channel_close(404)

    assert close.reply_text == f"NOT_FOUND - no queue '{name}' in vhost '/'"
    assert (close.class_id, close.method_id) == (50, 10)


def test_an_asker_cannot_acknowledge(server_client: AmqpClient) -> None:
    server_client.send(Basic.Consume(queue=REPLY_TO))

    close = server_client.expect_channel_close(406)

    assert close.reply_text == "PRECONDITION_FAILED - reply consumer cannot acknowledge"
    assert (close.class_id, close.method_id) == (60, 20)


def test_a_channel_asks_with_one_consumer(asker: AmqpClient) -> None:
    asker.send(Basic.Consume(queue=REPLY_TO, no_ack=True))

    close = asker.expect_channel_close(406)

    assert close.reply_text == "PRECONDITION_FAILED - reply consumer already set"
    assert (close.class_id, close.method_id) == (60, 20)


def test_the_tag_of_an_asker_must_be_free(server_client: AmqpClient) -> None:
    server_client.declare("q")
    server_client.call(Basic.Consume(queue="q", consumer_tag="t"), Basic.ConsumeOk)
    server_client.send(Basic.Consume(queue=REPLY_TO, no_ack=True, consumer_tag="t"))

    close = server_client.expect_connection_close(530)

    assert close.reply_text == "NOT_ALLOWED - attempt to reuse consumer tag 't'"


def test_a_question_of_a_channel_that_does_not_wait_for_answers_is_refused(
    server_client: AmqpClient,
) -> None:
    server_client.declare("q")
    # Before the login and the expiration are looked at.
    server_client.publish(
        b"?", "q", properties=Basic.Properties(reply_to=REPLY_TO, user_id="x", expiration="x")
    )

    close = server_client.expect_channel_close(406)

    assert close.reply_text == "PRECONDITION_FAILED - fast reply consumer does not exist"
    assert (close.class_id, close.method_id) == (60, 40)


def test_the_name_is_no_queue(server_client: AmqpClient) -> None:
    server_client.send(Basic.Get(queue=REPLY_TO))

    close = server_client.expect_channel_close(404)

    assert close.reply_text == f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'"
    assert (close.class_id, close.method_id) == (60, 70)
