"""An alternate exchange gets the messages that its exchange cannot route."""

from itertools import pairwise
from typing import Any

import pytest
from pamqp.commands import Exchange, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.errors import expect_channel_error
from tests.conformance.routing import (
    bind_exchange,
    bind_queue,
    declare_exchange,
    expect_unroutable,
    reached,
)


@pytest.fixture
def client(connect: Connect) -> AmqpClient:
    """Open a connection whose channel 1 has confirms."""
    return connect(confirms=True)


def declare_with_alternate(client: AmqpClient, exchange: str, kind: str, alternate: str) -> None:
    """Declare an exchange that names another for what it cannot route."""
    declare_exchange(client, exchange, kind, {"alternate-exchange": alternate})


def test_an_unrouted_message_goes_to_the_alternate(client: AmqpClient, new_name: NewName) -> None:
    exchange, alternate, own, rest = new_name(), new_name(), new_name(), new_name()
    declare_exchange(client, alternate, "fanout")
    declare_with_alternate(client, exchange, "direct", alternate)
    client.declare(own)
    client.declare(rest)
    bind_queue(client, own, exchange, "known")
    bind_queue(client, rest, alternate)
    assert reached(client, [own, rest], exchange, "known") == [own]
    assert reached(client, [own, rest], exchange, "unknown") == [rest]


def test_a_message_that_an_alternate_routes_is_not_returned(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, alternate, rest = new_name(), new_name(), new_name()
    declare_exchange(client, alternate, "direct")
    declare_with_alternate(client, exchange, "direct", alternate)
    client.declare(rest)
    bind_queue(client, rest, alternate, "taken")
    client.publish(b"", "taken", exchange, mandatory=True)
    client.expect_confirmed()
    client.publish(b"", "not taken", exchange, mandatory=True)
    expect_unroutable(client)
    client.expect_confirmed()


def test_alternates_of_alternates_are_followed(client: AmqpClient, new_name: NewName) -> None:
    chain = [new_name() for _ in range(5)]
    queue = new_name()
    declare_exchange(client, chain[-1], "fanout")
    for exchange, alternate in pairwise(chain):
        declare_with_alternate(client, exchange, "direct", alternate)
    client.declare(queue)
    bind_queue(client, queue, chain[-1])
    assert reached(client, [queue], chain[0], "unknown") == [queue]


def test_alternates_may_go_in_a_circle(client: AmqpClient, new_name: NewName) -> None:
    first, second = new_name(), new_name()
    declare_with_alternate(client, first, "direct", second)
    declare_with_alternate(client, second, "direct", first)
    client.publish(b"", "unknown", first, mandatory=True)
    expect_unroutable(client)


def test_an_exchange_may_be_its_own_alternate(client: AmqpClient, name: str) -> None:
    declare_with_alternate(client, name, "direct", name)
    client.publish(b"", "unknown", name, mandatory=True)
    expect_unroutable(client)


def test_a_missing_alternate_is_as_none(client: AmqpClient, new_name: NewName) -> None:
    exchange, alternate, queue = new_name(), new_name(), new_name()
    declare_with_alternate(client, exchange, "direct", alternate)
    client.publish(b"", "unknown", exchange, mandatory=True)
    expect_unroutable(client)
    client.expect_confirmed()
    # It may come later.
    declare_exchange(client, alternate, "fanout")
    client.declare(queue)
    bind_queue(client, queue, alternate)
    assert reached(client, [queue], exchange, "unknown") == [queue]


def test_the_default_exchange_is_no_alternate(client: AmqpClient, new_name: NewName) -> None:
    exchange, queue = new_name(), new_name()
    declare_with_alternate(client, exchange, "direct", "")
    client.declare(queue)
    assert reached(client, [queue], exchange, queue) == []
    client.publish(b"", queue, exchange, mandatory=True)
    expect_unroutable(client)


def test_each_exchange_on_the_way_has_its_own_alternate(
    client: AmqpClient, new_name: NewName
) -> None:
    top, left, right, alternate = (new_name() for _ in range(4))
    own, rest = new_name(), new_name()
    declare_exchange(client, alternate, "fanout")
    declare_exchange(client, top, "fanout")
    declare_exchange(client, left, "direct")
    declare_with_alternate(client, right, "direct", alternate)
    client.declare(own)
    client.declare(rest)
    bind_exchange(client, left, top)
    bind_exchange(client, right, top)
    bind_queue(client, own, left, "key")
    bind_queue(client, rest, alternate)
    assert reached(client, [own, rest], top, "key") == [own, rest]


def test_an_exchange_that_feeds_another_has_routed(client: AmqpClient, new_name: NewName) -> None:
    source, target, alternate, rest = (new_name() for _ in range(4))
    declare_exchange(client, alternate, "fanout")
    declare_exchange(client, target, "direct")
    declare_with_alternate(client, source, "fanout", alternate)
    client.declare(rest)
    bind_queue(client, rest, alternate)
    bind_exchange(client, target, source)
    assert reached(client, [rest], source, "nobody") == []


def test_an_internal_exchange_may_be_an_alternate(client: AmqpClient, new_name: NewName) -> None:
    exchange, alternate, queue = new_name(), new_name(), new_name()
    method = Exchange.Declare(exchange=alternate, exchange_type="fanout", internal=True)
    client.call(method, Exchange.DeclareOk)
    declare_with_alternate(client, exchange, "direct", alternate)
    client.declare(queue)
    bind_queue(client, queue, alternate)
    assert reached(client, [queue], exchange, "unknown") == [queue]


def test_headers_decide_for_the_alternate_as_well(client: AmqpClient, new_name: NewName) -> None:
    exchange, alternate, own, rest = (new_name() for _ in range(4))
    declare_exchange(client, alternate, "fanout")
    declare_with_alternate(client, exchange, "headers", alternate)
    client.declare(own)
    client.declare(rest)
    bind_queue(client, own, exchange, "", {"color": "red"})
    bind_queue(client, rest, alternate)
    assert reached(client, [own, rest], exchange, "", {"color": "red"}) == [own]
    assert reached(client, [own, rest], exchange, "", {"color": "blue"}) == [rest]


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1, "byte"), (True, "bool"), ([], "array"), ({}, "table"), (None, "void")],
    ids=["int", "bool", "array", "table", "void"],
)
def test_an_alternate_that_is_no_string_is_refused(
    client: AmqpClient, name: str, value: object, kind: str
) -> None:
    arguments: Any = {"alternate-exchange": value}
    client.send(Exchange.Declare(exchange=name, arguments=arguments))
    text = (
        f"PRECONDITION_FAILED - invalid type '{kind}' for arg 'alternate-exchange' "
        f"in exchange '{name}' in vhost '/'"
    )
    expect_channel_error(client, 406, text, Exchange.Declare)


def test_an_alternate_counts_as_routed_for_a_deleted_queue(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, alternate, own, rest = (new_name() for _ in range(4))
    declare_exchange(client, alternate, "fanout")
    declare_with_alternate(client, exchange, "direct", alternate)
    client.declare(own)
    client.declare(rest)
    bind_queue(client, own, exchange, "key")
    bind_queue(client, rest, alternate)
    client.call(Queue.Delete(queue=own), Queue.DeleteOk)
    assert reached(client, [rest], exchange, "key") == [rest]
