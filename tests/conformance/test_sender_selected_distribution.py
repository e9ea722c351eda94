"""The headers CC and BCC name more routing keys of a message."""

from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient, Message
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import drain
from tests.conformance.errors import expect_channel_error
from tests.conformance.raw_content import (
    HEADERS_FLAG,
    expect_octets,
    publish_raw,
    short_string,
    table,
)
from tests.conformance.routing import bind_queue, declare_exchange
from tests.conformance.routing import drain as reached_queues


@pytest.fixture
def publisher(connect: Connect) -> AmqpClient:
    """Open a connection with confirms."""
    return connect(confirms=True)


def publish(client: AmqpClient, key: str, headers: Any, exchange: str = "") -> None:  # noqa: ANN401
    """Publish with these headers, and return when the message is in its queues."""
    client.publish(b"", key, exchange, properties=with_headers(headers))
    client.expect_confirmed()


def with_headers(headers: Any) -> Basic.Properties:  # noqa: ANN401 - any at all
    return Basic.Properties(headers=headers)


def take(client: AmqpClient, queue: str) -> Message:
    """Take the only message of a queue."""
    message = client.get(queue)
    assert message is not None
    assert client.get(queue) is None
    return message


@pytest.fixture
def queues(client: AmqpClient, new_name: NewName) -> list[str]:
    """Declare three queues."""
    names = [new_name(), new_name(), new_name()]
    for name in names:
        client.declare(name)
    return names


@pytest.mark.parametrize("header", ["CC", "BCC"])
class TestEither:
    def test_the_message_is_routed_by_its_routing_key_and_by_all_named_keys(
        self, publisher: AmqpClient, queues: list[str], header: str
    ) -> None:
        publish(publisher, queues[0], {header: queues[1:]})
        for queue in queues:
            take(publisher, queue)

    def test_delivered_is_the_routing_key_of_the_publish(
        self, publisher: AmqpClient, queues: list[str], header: str
    ) -> None:
        publish(publisher, queues[0], {header: queues[1:]})
        method = take(publisher, queues[2]).method
        assert isinstance(method, Basic.GetOk)
        assert method.routing_key == queues[0]

    def test_a_queue_gets_one_copy_however_often_it_is_named(
        self, publisher: AmqpClient, queues: list[str], header: str
    ) -> None:
        publish(publisher, queues[0], {header: [queues[0], queues[1], queues[1]]})
        take(publisher, queues[0])
        take(publisher, queues[1])

    def test_it_is_enough_that_a_named_key_has_a_queue(
        self, publisher: AmqpClient, queues: list[str], name: str, header: str
    ) -> None:
        properties = Basic.Properties(headers={header: [queues[0]]})
        publisher.publish(b"", name, properties=properties, mandatory=True)
        publisher.expect_confirmed()  # and nothing came back
        take(publisher, queues[0])

    def test_a_message_that_no_key_has_a_queue_for_comes_back(
        self, publisher: AmqpClient, name: str, header: str
    ) -> None:
        properties = Basic.Properties(headers={header: [name + "?"]})
        publisher.publish(b"", name, properties=properties, mandatory=True)
        publisher.expect_return()

    def test_named_keys_are_matched_by_a_topic_exchange(
        self, publisher: AmqpClient, queues: list[str], name: str, header: str
    ) -> None:
        publisher.call(Exchange.Declare(exchange=name, exchange_type="topic"), Exchange.DeclareOk)
        for queue, pattern in zip(queues, ("a.#", "*.b", "c"), strict=True):
            bind = Queue.Bind(queue=queue, exchange=name, routing_key=pattern)
            publisher.call(bind, Queue.BindOk)
        publish(publisher, "nowhere", {header: ["a.b", "a.c"]}, name)
        take(publisher, queues[0])
        take(publisher, queues[1])
        assert publisher.get(queues[2]) is None

    def test_named_keys_are_for_the_first_exchange_and_those_behind_it(
        self, publisher: AmqpClient, queues: list[str], new_name: NewName, header: str
    ) -> None:
        source, target = new_name(), new_name()
        for exchange in (source, target):
            declare = Exchange.Declare(exchange=exchange, exchange_type="direct")
            publisher.call(declare, Exchange.DeclareOk)
        bind_exchange = Exchange.Bind(destination=target, source=source, routing_key="second")
        publisher.call(bind_exchange, Exchange.BindOk)
        bind = Queue.Bind(queue=queues[0], exchange=target, routing_key="second")
        publisher.call(bind, Queue.BindOk)
        publish(publisher, "first", {header: ["second"]}, source)
        take(publisher, queues[0])

    @pytest.mark.parametrize(
        ("value", "kind"),
        [
            ("key", "longstr"),
            (True, "bool"),
            (1.5, "float"),
            ({"key": "key"}, "table"),
            (None, "void"),
        ],
    )
    def test_it_must_be_an_array(
        self,
        publisher: AmqpClient,
        name: str,
        header: str,
        value: object,
        kind: str,
    ) -> None:
        publisher.publish(b"", name, properties=with_headers({header: value}))
        text = (
            "PRECONDITION_FAILED - "
            f'invalid message: {{unacceptable_type_in_header,"{header}",{kind}}}'
        )
        expect_channel_error(publisher, 406, text, Basic.Publish)

    def test_an_integer_is_named_by_its_own_type(
        self, publisher: AmqpClient, name: str, header: str
    ) -> None:
        fields = short_string(header) + b"I\x00\x00\x00\x01"
        publish_raw(publisher, name, HEADERS_FLAG, table(fields))
        text = (
            f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{header}",'
            "signedint}"
        )
        expect_channel_error(publisher, 406, text, Basic.Publish)

    def test_elements_that_are_no_strings_name_nothing(
        self, publisher: AmqpClient, queues: list[str], header: str
    ) -> None:
        publish(publisher, queues[0], {header: [1, queues[1], True, None]})
        take(publisher, queues[0])
        take(publisher, queues[1])

    def test_an_empty_array_names_nothing(
        self, publisher: AmqpClient, queues: list[str], header: str
    ) -> None:
        publish(publisher, queues[0], {header: []})
        take(publisher, queues[0])


def test_a_queue_that_cc_and_bcc_name_gets_one_copy_with_the_first_routing_key(
    publisher: AmqpClient, queues: list[str]
) -> None:
    named = [queues[1], queues[0], queues[1]]
    publish(publisher, queues[0], {"CC": named, "BCC": [queues[2], queues[1]], "other": 1})
    for queue in queues:
        message = take(publisher, queue)
        assert message.properties.headers == {"CC": named, "other": 1}
        assert isinstance(message.method, Basic.GetOk)
        assert message.method.routing_key == queues[0]


def test_cc_is_checked_before_bcc(publisher: AmqpClient, name: str) -> None:
    publisher.publish(b"", name, properties=Basic.Properties(headers={"BCC": "b", "CC": "c"}))
    text = 'PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}'
    expect_channel_error(publisher, 406, text, Basic.Publish)


def test_names_in_lower_case_are_ordinary_headers(publisher: AmqpClient, queues: list[str]) -> None:
    publish(publisher, queues[0], {"cc": [queues[1]], "bcc": "no array"})
    assert dict(take(publisher, queues[0]).properties.headers or {}) == {
        "cc": [queues[1]],
        "bcc": "no array",
    }
    assert publisher.get(queues[1]) is None


def test_a_returned_message_has_cc_and_not_bcc(publisher: AmqpClient, name: str) -> None:
    headers = {"BCC": [name + "?"], "CC": [name + "!"], "other": 1}
    publisher.publish(b"", name, properties=with_headers(headers), mandatory=True)
    returned = publisher.expect_return()
    assert returned.properties.headers == {"CC": [name + "!"], "other": 1}


def test_the_other_headers_keep_their_types_without_bcc(
    publisher: AmqpClient, queues: list[str]
) -> None:
    kept = b"".join(
        short_string(f"k{number}") + value
        for number, value in enumerate(
            [
                b"t\x01",
                b"b\xff",
                b"s\xff\xfe",
                b"I\xff\xff\xff\xff",
                b"l" + bytes(8),
                b"f" + bytes(4),
            ]
        )
    )
    hidden = short_string("BCC") + b"A" + table(b"S" + table(queues[1].encode()))
    publish_raw(publisher, queues[0], HEADERS_FLAG, table(hidden + kept))
    publisher.expect(Basic.Ack)
    publisher.send(Basic.Get(queue=queues[1], no_ack=True))
    expect_octets(publisher, table(kept))


def test_a_message_keeps_the_exchange_it_was_published_to(
    publisher: AmqpClient, queues: list[str], name: str
) -> None:
    publisher.call(Exchange.Declare(exchange=name, exchange_type="direct"), Exchange.DeclareOk)
    bind = Queue.Bind(queue=queues[0], exchange=name, routing_key="copy")
    publisher.call(bind, Queue.BindOk)
    publish(publisher, "original", {"CC": ["copy"]}, name)
    method = take(publisher, queues[0]).method
    assert isinstance(method, Basic.GetOk)
    assert (method.exchange, method.routing_key) == (name, "original")


def test_copies_keep_the_order_of_messages_that_are_sent_together(
    publisher: AmqpClient, queues: list[str]
) -> None:
    method = Basic.Publish(routing_key=queues[0])
    headers = [{"CC": [queues[1]]} if number % 3 else {"n": number} for number in range(12)]
    publisher.send_raw(
        b"".join(
            publisher.publish_octets(method, b"%d" % number, with_headers(each))
            for number, each in enumerate(headers)
        )
    )
    publisher.published[1] += 12
    publisher.expect_confirmed()
    assert drain(publisher, queues[0]) == [b"%d" % number for number in range(12)]
    assert drain(publisher, queues[1]) == [b"%d" % number for number in range(12) if number % 3]


def test_a_message_of_many_frames_is_copied_whole(publisher: AmqpClient, queues: list[str]) -> None:
    body = b"0123456789" * 30_000
    properties = with_headers({"BCC": [queues[1]]})
    publisher.publish(body, queues[0], properties=properties)
    publisher.expect_confirmed()
    for queue in queues[:2]:
        message = take(publisher, queue)
        assert message.body == body
        assert message.properties.headers == {}


def test_an_alternate_exchange_gets_a_message_that_none_of_its_keys_routes(
    publisher: AmqpClient, queues: list[str], new_name: NewName
) -> None:
    exchange, alternate, key = new_name(), new_name(), new_name()
    declare_exchange(publisher, alternate, "fanout")
    declare_exchange(publisher, exchange, "direct", {"alternate-exchange": alternate})
    bind_queue(publisher, queues[0], exchange, key)
    bind_queue(publisher, queues[1], alternate)
    publish(publisher, "none", {"CC": [key]}, exchange)
    assert reached_queues(publisher, queues) == [queues[0]]
    publish(publisher, "none", {"CC": [key + "?"]}, exchange)
    assert reached_queues(publisher, queues) == [queues[1]]
