"""Which names queues may have, and what an empty name stands for."""

import re
from typing import Any

import pytest
from pamqp.base import Frame
from pamqp.commands import Basic, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect
from tests.conformance.errors import expect_channel_error
from tests.conformance.queues import exists
from tests.conformance.typed_fields import EXCLUSIVE, PASSIVE, send_declaration

GENERATED = re.compile(r"amq\.gen-[A-Za-z0-9_-]{22}")


def declare_unnamed(client: AmqpClient, channel: int = 1) -> str:
    declared = client.call(Queue.Declare(queue="", exclusive=True), Queue.DeclareOk, channel)
    assert declared.queue is not None
    return declared.queue


def test_a_new_queue_must_not_have_a_reserved_name(client: AmqpClient) -> None:
    client.send(Queue.Declare(queue="amq.mine"))
    expect_channel_error(
        client,
        403,
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
        Queue.Declare,
    )


def test_a_reserved_name_may_be_declared_passively(client: AmqpClient) -> None:
    client.send(Queue.Declare(queue="amq.mine", passive=True))
    expect_channel_error(client, 404, "NOT_FOUND - no queue 'amq.mine' in vhost '/'", Queue.Declare)


def test_a_queue_declared_without_a_name_gets_one(client: AmqpClient) -> None:
    first, second = declare_unnamed(client), declare_unnamed(client)
    assert GENERATED.fullmatch(first)
    assert GENERATED.fullmatch(second)
    assert first != second


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_the_server_names_classic_queues_only(
    client: AmqpClient, kind: str, exclusive: bool
) -> None:
    arguments: Any = {"x-queue-type": kind}
    client.send(Queue.Declare(queue="", durable=True, exclusive=exclusive, arguments=arguments))
    expect_channel_error(
        client,
        406,
        f"PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_{kind}_queue",
        Queue.Declare,
    )


def test_a_generated_name_is_reserved_even_for_its_own_client(client: AmqpClient) -> None:
    name = declare_unnamed(client)
    client.send(Queue.Declare(queue=name, exclusive=True))
    expect_channel_error(
        client,
        403,
        f"ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'",
        Queue.Declare,
    )


def test_a_generated_name_may_be_declared_passively(client: AmqpClient) -> None:
    name = declare_unnamed(client)
    assert client.call(Queue.Declare(queue=name, passive=True), Queue.DeclareOk).queue == name


def test_an_empty_name_is_the_queue_last_declared_on_this_channel(
    client: AmqpClient, name: str
) -> None:
    client.declare(f"{name}")
    last = declare_unnamed(client)
    client.publish(b"to the last", last)
    assert client.get("") is not None
    client.publish(b"purged", last)
    assert client.call(Queue.Purge(queue=""), Queue.PurgeOk).message_count == 1
    client.call(Queue.Bind(queue="", exchange="amq.direct", routing_key="k"), Queue.BindOk)
    client.call(Queue.Unbind(queue="", exchange="amq.direct", routing_key="k"), Queue.UnbindOk)
    client.call(Basic.Consume(queue="", consumer_tag="c"), Basic.ConsumeOk)
    client.call(Basic.Cancel("c"), Basic.CancelOk)
    client.call(Queue.Delete(queue=""), Queue.DeleteOk)
    assert not exists(client, last)
    assert exists(client, name)


def test_a_passive_declaration_makes_a_queue_the_last_declared(
    client: AmqpClient, name: str
) -> None:
    client.declare(name)
    declare_unnamed(client)
    client.call(Queue.Declare(queue=name, passive=True), Queue.DeclareOk)
    client.publish(b"x", name)
    assert client.get("") is not None


def test_a_declaration_without_an_answer_makes_a_queue_the_last_declared(
    client: AmqpClient, name: str
) -> None:
    client.send(Queue.Declare(queue=name, nowait=True))
    client.publish(b"x", name)
    assert client.get("") is not None


def test_an_empty_name_still_stands_for_the_last_declared_queue_after_its_deletion(
    client: AmqpClient, name: str
) -> None:
    client.declare(name)
    client.call(Queue.Delete(queue=""), Queue.DeleteOk)
    client.send(Basic.Get(queue=""))
    expect_channel_error(client, 404, f"NOT_FOUND - no queue '{name}' in vhost '/'", Basic.Get)


@pytest.mark.parametrize(
    "method",
    [
        Basic.Get(queue=""),
        Basic.Consume(queue=""),
        Queue.Purge(queue=""),
        Queue.Delete(queue=""),
        Queue.Bind(queue="", exchange="amq.direct", routing_key="k"),
        Queue.Unbind(queue="", exchange="amq.direct", routing_key="k"),
    ],
    ids=lambda method: str(method.name),
)
def test_an_empty_name_is_an_error_before_any_declaration_on_the_channel(
    connect: Connect, method: Frame
) -> None:
    client = connect(channels=2)
    declare_unnamed(client, channel=2)
    client.send(method)
    expect_channel_error(client, 404, "NOT_FOUND - no previously declared queue", type(method))


def test_a_passive_declare_of_an_empty_name_is_an_error(client: AmqpClient, name: str) -> None:
    client.declare(name)
    client.send(Queue.Declare(queue="", passive=True))
    expect_channel_error(client, 404, "NOT_FOUND - no queue '' in vhost '/'", Queue.Declare)


def test_a_binding_without_queue_and_routing_key_has_the_queues_name_as_its_key(
    client: AmqpClient,
) -> None:
    name = declare_unnamed(client)
    client.call(Queue.Bind(queue="", exchange="amq.direct", routing_key=""), Queue.BindOk)
    client.publish(b"by its name", name, "amq.direct")
    assert client.get(name) is not None


def test_line_ends_are_taken_out_of_a_name(client: AmqpClient, name: str) -> None:
    send_declaration(client, f"\r{name[:5]}\r\n{name[5:]}\n")
    assert client.expect(Queue.DeclareOk).queue == name
    send_declaration(client, f"{name}\n", flags=PASSIVE)
    assert client.expect(Queue.DeclareOk).queue == name
    assert exists(client, name)


def test_a_name_may_be_any_text_of_255_octets(client: AmqpClient, name: str) -> None:
    long_name = (name + " ä/\\'\"%2F.#*\x7f").ljust(254, "x")
    assert len(long_name.encode()) == 255
    send_declaration(client, long_name, flags=EXCLUSIVE)
    assert client.expect(Queue.DeclareOk).queue == long_name
    client.publish(b"x", long_name)
    message = client.get("")
    assert message is not None
    assert message.method.routing_key == long_name
