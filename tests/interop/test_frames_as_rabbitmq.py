"""What no client library shows by itself: which frames come, and in which order.

Each was seen to come like this from RabbitMQ.
"""

import struct

import pytest
from pamqp import frame
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue

from tests.amqp_client import AmqpClient, connect
from tests.interop.conftest import Address

pytestmark = pytest.mark.interop


def publish(client: AmqpClient, exchange: str, key: str, *, mandatory: bool = False) -> bytes:
    """Return the frames of a small message."""
    method = Basic.Publish(0, exchange, key, mandatory)
    return client.publish_octets(method, b"x", Basic.Properties())


def test_what_is_safe_is_confirmed_before_the_channel_closes_for_a_mistake(
    address: Address,
) -> None:
    with connect(address) as client:
        client.open_channel(confirms=True)
        good, bad = publish(client, "", "nobody"), publish(client, "nowhere", "nobody")
        client.send_raw(good * 3 + bad + good)
        confirmed = 0
        while confirmed < 3:
            ack = client.expect(Basic.Ack)
            assert ack.delivery_tag is not None
            confirmed = ack.delivery_tag
        assert confirmed == 3
        client.expect_channel_close(404)


def test_a_client_that_closes_its_channel_gets_its_confirms_first(address: Address) -> None:
    with connect(address) as client:
        client.open_channel(confirms=True)
        client.send_raw(
            publish(client, "", "nobody") + frame.marshal(Channel.Close(200, "", 0, 0), 1)
        )
        client.expect(Basic.Ack)
        client.expect(Channel.CloseOk)


def test_a_returned_message_comes_before_its_confirm(address: Address) -> None:
    with connect(address) as client:
        client.open_channel(confirms=True)
        client.send_raw(publish(client, "", "nobody", mandatory=True) * 2)
        events: list[str] = []
        while events[-1:] != ["confirm 2"]:
            _, value = client.receive()
            if isinstance(value, Basic.Return):
                events.append("return")
            elif isinstance(value, Basic.Ack):
                events.append(f"confirm {value.delivery_tag}")
        assert events.count("return") == 2
        assert events[0] == "return"
        assert events[-2:] in (["return", "confirm 2"], ["confirm 1", "confirm 2"])


def test_methods_that_ask_for_no_answer_get_none(address: Address, name: str) -> None:
    with connect(address) as client:
        client.open_channel()
        for method in (
            Queue.Declare(queue=name, nowait=True),
            Queue.Declare(queue=name, passive=True, nowait=True),
            Exchange.Declare(exchange=name, exchange_type="topic", durable=True, nowait=True),
            Queue.Bind(queue=name, exchange=name, routing_key="#", nowait=True),
            Exchange.Bind(destination=name, source="amq.topic", routing_key=name, nowait=True),
            Exchange.Unbind(destination=name, source="amq.topic", routing_key=name, nowait=True),
            Basic.Consume(queue=name, consumer_tag="c", nowait=True),
            Basic.Cancel("c", nowait=True),
            Queue.Purge(queue=name, nowait=True),
            Queue.Delete(queue=name, nowait=True),
            Exchange.Delete(exchange=name, nowait=True),
            Confirm.Select(nowait=True),
        ):
            client.send(method)
        client.publish(b"", "nobody")
        client.expect(Basic.Ack)


def test_a_binding_made_twice_is_one_and_its_arguments_tell_it_from_another(
    address: Address, name: str
) -> None:
    with connect(address) as client:
        client.open_channel(confirms=True)
        client.declare(name, durable=False, auto_delete=True)
        for number in range(3):
            bind = Queue.Bind(queue=name, exchange="amq.direct", routing_key=name)
            bind.arguments = {"a": 1} if number == 2 else {}
            client.call(bind, Queue.BindOk)
        unbind = Queue.Unbind(queue=name, exchange="amq.direct", routing_key=name)
        client.call(unbind, Queue.UnbindOk)
        client.publish(b"", name, "amq.direct", mandatory=True)
        client.expect(Basic.Ack)
        assert client.ready_count(name) == 1
        unbind.arguments = {"a": 1}
        client.call(unbind, Queue.UnbindOk)
        client.publish(b"", name, "amq.direct", mandatory=True)
        client.expect_return()
        client.expect(Basic.Ack)


def test_an_old_client_is_granted_the_access_ticket_it_asks_for(address: Address) -> None:
    request = struct.pack(">HHB5sB", 30, 10, 5, b"/data", 0b11111)
    with connect(address) as client:
        client.open_channel()
        client.send_raw(struct.pack(">BHI", 1, 1, len(request)) + request + b"\xce")
        granted = struct.pack(">BHIHHHB", 1, 1, 6, 30, 11, 1, 0xCE)
        received = b""
        while len(received) < len(granted):
            received += client.receive_raw()
        assert received == granted
