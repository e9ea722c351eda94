"""How the broker routes, returns and refuses publishes."""

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.errors import expect_channel_error, expect_connection_error
from tests.conformance.queues import await_ready_count
from tests.conformance.raw_content import EXPIRATION_FLAG, publish_raw, short_string

EVERYTHING = Basic.Properties(
    content_type="text/plain", headers={"a": [1, "two"]}, correlation_id="c", message_id="m"
)


def test_a_missing_exchange_closes_the_channel(client: AmqpClient, name: str) -> None:
    client.publish(b"", "key", name)
    expect_channel_error(
        client, 404, f"NOT_FOUND - no exchange '{name}' in vhost '/'", Basic.Publish
    )


def test_a_missing_exchange_is_reported_before_invalid_content(
    client: AmqpClient, name: str
) -> None:
    client.publish(b"", "key", name, properties=Basic.Properties(expiration="soon"))
    expect_channel_error(
        client, 404, f"NOT_FOUND - no exchange '{name}' in vhost '/'", Basic.Publish
    )


def test_a_reopened_channel_starts_with_tag_one(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.publish(b"", name)
    assert client.expect(Basic.Ack).delivery_tag == 1
    client.publish(b"", "key", name)
    client.expect_channel_close(404)
    client.open_channel(confirms=True)
    client.publish(b"", name)
    assert client.expect(Basic.Ack).delivery_tag == 1


def test_an_internal_exchange_takes_nothing_from_a_client(client: AmqpClient, name: str) -> None:
    client.call(
        Exchange.Declare(exchange=name, exchange_type="fanout", internal=True), Exchange.DeclareOk
    )
    client.publish(b"", "key", name)
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{name}' in vhost '/'"
    expect_channel_error(client, 403, text, Basic.Publish)


def test_a_mandatory_message_that_has_no_queue_comes_back_whole(
    client: AmqpClient, name: str
) -> None:
    content = b"0123456789" * 30_000  # of several frames
    client.publish(content, name, "amq.topic", properties=EVERYTHING, mandatory=True)
    returned = client.expect_return()
    method = returned.method
    assert isinstance(method, Basic.Return)
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (method.exchange, method.routing_key) == ("amq.topic", name)
    assert returned.body == content
    assert dict(returned.properties) == dict(EVERYTHING)


def test_an_empty_message_comes_back_as_a_header_alone(client: AmqpClient, name: str) -> None:
    client.publish(b"", name, mandatory=True)
    assert client.expect_return().body == b""
    client.declare(name)


def test_a_mandatory_message_that_has_a_queue_does_not_come_back(
    connect: Connect, name: str
) -> None:
    client = connect(confirms=True)
    client.declare(name)
    client.publish(b"kept", name, mandatory=True)
    client.expect_confirmed()
    assert client.ready_count(name) == 1


def test_a_mandatory_message_for_an_exchange_without_bindings_comes_back(
    client: AmqpClient, name: str
) -> None:
    client.call(Exchange.Declare(exchange=name, exchange_type="fanout"), Exchange.DeclareOk)
    client.publish(b"", "key", name, mandatory=True)
    client.expect_return()


def test_an_empty_routing_key_names_no_queue(client: AmqpClient, name: str) -> None:
    """It means the queue declared last in queue.bind and basic.get; here it means itself."""
    client.declare(name)
    client.publish(b"", "", mandatory=True)
    client.expect_return()


def test_immediate_closes_the_connection(client: AmqpClient, name: str) -> None:
    method = Basic.Publish(routing_key=name, immediate=True)
    client.send_raw(client.publish_octets(method, b"", Basic.Properties()))
    expect_connection_error(client, 540, "NOT_IMPLEMENTED - immediate=true", Basic.Publish)


def test_immediate_is_refused_for_a_missing_exchange_too(client: AmqpClient, name: str) -> None:
    method = Basic.Publish(exchange=name, immediate=True)
    client.send_raw(client.publish_octets(method, b"", Basic.Properties()))
    expect_connection_error(client, 540, "NOT_IMPLEMENTED - immediate=true", Basic.Publish)


def test_a_user_id_must_be_the_publishers(client: AmqpClient, name: str) -> None:
    client.publish(b"", name, properties=Basic.Properties(user_id="somebody"))
    text = (
        "PRECONDITION_FAILED - "
        "user_id property set to 'somebody' but authenticated user was 'guest'"
    )
    expect_channel_error(client, 406, text, Basic.Publish)


def test_the_user_id_is_checked_before_the_expiration(client: AmqpClient, name: str) -> None:
    client.declare(name)
    right = Basic.Properties(expiration="5", user_id="guest")
    client.publish(b"x", name, properties=right)
    wrong = Basic.Properties(expiration="?", user_id="other")
    client.publish(b"x", name, properties=wrong)
    text = (
        "PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was 'guest'"
    )
    expect_channel_error(client, 406, text, Basic.Publish)


def test_the_publishers_own_user_id_is_delivered(client: AmqpClient, name: str) -> None:
    client.declare(name)
    client.publish(b"", name, properties=Basic.Properties(user_id="guest"))
    message = client.get(name)
    assert message is not None
    assert message.properties.user_id == "guest"


def test_one_message_goes_once_to_each_queue_it_is_bound_to(
    connect: Connect, new_name: NewName
) -> None:
    client = connect(confirms=True)
    exchange, one, other = new_name(), new_name(), new_name()
    client.call(Exchange.Declare(exchange=exchange, exchange_type="topic"), Exchange.DeclareOk)
    for queue, keys in ((one, ("a.*", "*.b", "#")), (other, ("a.b",))):
        client.declare(queue)
        for key in keys:
            client.call(Queue.Bind(queue=queue, exchange=exchange, routing_key=key), Queue.BindOk)
    client.publish(b"", "a.b", exchange)
    client.expect_confirmed()
    assert (client.ready_count(one), client.ready_count(other)) == (1, 1)


class TestExpiration:
    @pytest.mark.parametrize(
        ("expiration", "complaint"),
        [
            ("abc", "no_integer"),
            (" 5", "no_integer"),
            ("-1", "{value_negative,-1}"),
            ("1.5", '{leftover_string,".5"}'),
            ("5 ", '{leftover_string," "}'),
            ("0x10", '{leftover_string,"x10"}'),
            ("315360000001", "{value_too_large,315360000001}"),
        ],
    )
    def test_an_invalid_expiration_is_refused(
        self, client: AmqpClient, name: str, expiration: str, complaint: str
    ) -> None:
        client.declare(name)
        client.publish(b"", name, properties=with_expiration(expiration))
        text = f"PRECONDITION_FAILED - invalid expiration '{expiration}': {complaint}"
        expect_channel_error(client, 406, text, Basic.Publish)

    def test_an_empty_one_is_refused(self, client: AmqpClient, name: str) -> None:
        publish_raw(client, name, EXPIRATION_FLAG, short_string(""))
        text = "PRECONDITION_FAILED - invalid expiration '': no_integer"
        expect_channel_error(client, 406, text, Basic.Publish)

    def test_a_number_beyond_64_bits_is_refused(self, client: AmqpClient, name: str) -> None:
        client.publish(b"", name, properties=with_expiration("9" * 20))
        close = client.expect_channel_close(406)
        assert close.reply_text.startswith(
            f"PRECONDITION_FAILED - invalid expiration '{'9' * 20}': {{value_too_large,"
        )

    def test_messages_before_an_invalid_one_are_taken_and_those_behind_it_are_not(
        self, client: AmqpClient, name: str
    ) -> None:
        client.declare(name)
        method = Basic.Publish(routing_key=name)
        expirations = ["1000000", "1000000", "2000000", "abc", "1000000"]
        client.send_raw(
            b"".join(
                client.publish_octets(method, b"x", with_expiration(each)) for each in expirations
            )
        )
        text = "PRECONDITION_FAILED - invalid expiration 'abc': no_integer"
        expect_channel_error(client, 406, text, Basic.Publish)
        client.open_channel()
        await_ready_count(client, name, 3)

    def test_that_of_a_message_of_many_frames_is_checked(
        self, client: AmqpClient, name: str
    ) -> None:
        client.declare(name)
        client.publish(b"x" * 300_000, name, properties=with_expiration("-1"))
        text = "PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1}"
        expect_channel_error(client, 406, text, Basic.Publish)

    def test_it_is_checked_although_no_queue_gets_the_message(
        self, client: AmqpClient, name: str
    ) -> None:
        client.publish(b"", name, properties=with_expiration("soon"))
        text = "PRECONDITION_FAILED - invalid expiration 'soon': no_integer"
        expect_channel_error(client, 406, text, Basic.Publish)

    @pytest.mark.parametrize("expiration", ["100000", "00100000", "+100000", "315360000000"])
    def test_a_valid_expiration_is_delivered_unchanged(
        self, client: AmqpClient, name: str, expiration: str
    ) -> None:
        client.declare(name)
        client.publish(b"", name, properties=with_expiration(expiration))
        message = client.get(name)
        assert message is not None
        assert message.properties.expiration == expiration


def with_expiration(expiration: str) -> Basic.Properties:
    return Basic.Properties(expiration=expiration)
