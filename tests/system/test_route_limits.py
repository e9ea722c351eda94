"""Messages whose way is too long are refused, and others are served while a long way is found."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pamqp import frame
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.base import time_slice
from amqp_server.base.limits import Limits
from amqp_server.broker.routing import routing
from amqp_server.protocol.constants import ReplyCode
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.cutting import read
from tests.threaded_server import ThreadedServer, two_clients

CHAIN = 30
SMALL = Limits(route_visits_max=CHAIN, copies_max=3, hash_bindings_max=2, header_values_max=8)


def bind_chain(client: AmqpClient, count: int, queue: str = "q") -> None:
    """Make exchanges e0 to e<count - 1>, each bound to the next, the last one to a queue."""
    names = [f"e{number}" for number in range(count)]
    for name in names:
        declare = Exchange.Declare(exchange=name, exchange_type="fanout")
        client.call(declare, Exchange.DeclareOk)
    for source, destination in pairwise(names):
        bind = Exchange.Bind(source=source, destination=destination)
        client.call(bind, Exchange.BindOk)
    client.declare(queue)
    client.call(Queue.Bind(queue=queue, exchange=names[-1]), Queue.BindOk)


@pytest.mark.parametrize("size", [1, 300_000], ids=["one frame", "several frames"])
def test_a_publish_whose_way_is_too_long_is_refused(tmp_path: Path, size: int) -> None:
    with ThreadedServer(tmp_path, limits=SMALL) as server, connect(server.address) as client:
        client.open_channel()
        bind_chain(client, CHAIN)
        client.publish(bytes(size), "", "e15")
        assert client.ready_count("q") == 1

        client.publish(bytes(size), "", "e0")

        close = client.expect_channel_close(ReplyCode.PRECONDITION_FAILED)
        assert close.reply_text == (
            "PRECONDITION_FAILED - cannot route message: on its way are more than "
            f"{CHAIN} exchanges, bindings and words of binding keys"
        )
        assert (close.class_id, close.method_id) == (60, 40)
        client.open_channel()
        assert client.ready_count("q") == 1


def test_a_dead_letter_is_not_refused_however_long_its_way_is(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path, limits=SMALL) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        bind_chain(client, CHAIN)
        client.declare("short", arguments={"x-dead-letter-exchange": "e0"})
        client.publish(b"dead", "short")
        client.expect_confirmed()
        message = client.get("short", no_ack=False)
        assert message is not None
        client.consume("q")
        client.send(Basic.Reject(message.tag, requeue=False))

        assert client.expect_delivery().body == b"dead"


def test_one_key_too_many_in_cc_and_bcc_is_refused(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path, limits=SMALL) as server, connect(server.address) as client:
        client.open_channel()
        for name in ("a", "b", "c", "d"):
            client.declare(name)
        properties = Basic.Properties(headers={"CC": ["b", "c"], "BCC": ["d"]})
        client.publish(b"m", "a", properties=properties)
        assert [client.ready_count(name) for name in ("a", "b", "c", "d")] == [1, 1, 1, 1]

        properties = Basic.Properties(headers={"CC": ["b", "c"], "BCC": ["d", "d"]})
        client.publish(b"m", "a", properties=properties)

        close = client.expect_channel_close(ReplyCode.PRECONDITION_FAILED)
        assert close.reply_text == (
            "PRECONDITION_FAILED - invalid message: CC and BCC have 4 keys, 3 are allowed"
        )


@pytest.mark.parametrize("exchange", ["", "amq.headers"], ids=["CC", "headers exchange"])
def test_one_header_value_too_many_to_decode_is_refused(tmp_path: Path, exchange: str) -> None:
    with ThreadedServer(tmp_path, limits=SMALL) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.call(Queue.Bind(queue="q", exchange="amq.headers"), Queue.BindOk)
        most: dict[str, Any] = {"CC": [], "list": [1, [2], {"k": 3}]}
        client.publish(b"m", "q", exchange, properties=Basic.Properties(headers=most))
        assert client.ready_count("q") == 1
        # What the broker need not decode may have any number.
        many = Basic.Properties(headers=dict.fromkeys("abcdefghi", "v"))
        client.publish(b"m", "q", properties=many)
        assert client.ready_count("q") == 2

        properties = Basic.Properties(headers=most | {"one": "more"} | {"": "more"})
        client.publish(b"m", "q", exchange, properties=properties)

        close = client.expect_channel_close(ReplyCode.PRECONDITION_FAILED)
        assert close.reply_text == (
            "PRECONDITION_FAILED - invalid message: its headers have more than 8 values"
        )


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-delayed-message"])
def test_one_binding_too_many_of_a_hashing_exchange_is_refused(tmp_path: Path, kind: str) -> None:
    with ThreadedServer(tmp_path, limits=SMALL) as server, connect(server.address) as client:
        client.open_channel()
        declare = Exchange.Declare(
            exchange="e", exchange_type=kind, arguments={"x-delayed-type": "x-consistent-hash"}
        )
        client.call(declare, Exchange.DeclareOk)
        for name in ("a", "b", "c"):
            client.declare(name)
            bind = Queue.Bind(queue=name, exchange="e", routing_key="1")
            client.send(bind)
            if name != "c":
                client.expect(Queue.BindOk)

        close = client.expect_channel_close(ReplyCode.PRECONDITION_FAILED)
        assert close.reply_text == (
            "PRECONDITION_FAILED - cannot bind 'c' to 'e': "
            f"binding limit of an exchange of type '{kind}' (2) is reached"
        )


def test_other_clients_are_served_while_a_way_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
    with two_clients(tmp_path) as (server, greedy, modest):
        bind_chain(greedy, CHAIN)
        monkeypatch.setattr(routing, "STEP_VISITS", 1)
        count = frame.marshal(Queue.Declare(queue="q", passive=True), 1)
        octets = greedy.publish_octets(Basic.Publish(0, "e0", ""), b"m", PERSISTENT)

        def read_both() -> None:
            read(server, greedy, octets + count)
            read(server, modest, count)

        server.call(read_both)

        assert modest.expect(Queue.DeclareOk).message_count == 0
        assert greedy.expect(Queue.DeclareOk).message_count == 1


def test_a_batch_of_keys_with_known_routes_is_cut_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them follows a tree over all exchanges of the chain."""
    with two_clients(tmp_path) as (server, greedy, modest):
        bind_chain(greedy, CHAIN)
        greedy.publish(b"learned", "first", "e0")
        assert greedy.ready_count("q") == 1
        monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
        count = frame.marshal(Queue.Declare(queue="q", passive=True), 1)
        octets = b"".join(
            greedy.publish_octets(Basic.Publish(0, "e0", f"key {number}"), b"m", PERSISTENT)
            for number in range(CHAIN)
        )

        def read_both() -> None:
            read(server, greedy, octets + count)
            read(server, modest, count)

        server.call(read_both)

        assert modest.expect(Queue.DeclareOk).message_count == 1
        assert greedy.expect(Queue.DeclareOk).message_count == 1 + CHAIN
