"""Each long operation of one client beside each operation of another one, cut at every step.

All are answered, no message is lost or comes twice, and the server stops cleanly.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pamqp import frame
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Exchange, Queue, Tx

from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.cutting import cut_everywhere, together
from tests.limits import HANG_SECONDS
from tests.stopwatch import Stopwatch
from tests.system.stopped_record import StoppedRecord
from tests.threaded_server import ThreadedServer

MESSAGES = 30
BODIES = [b"%d" % number for number in range(MESSAGES)]
LARGE = [b"large %d" % number for number in range(MESSAGES)]
SMALL = b"small"


class Long(NamedTuple):
    """What a client does that holds all of `source`; last comes what it is answered with."""

    methods: list[Frame]
    answer: type[Frame]
    is_transactional: bool = False
    acks: bool = False


class Other(NamedTuple):
    """What another client does meanwhile; it may spoil what the queue `most` holds."""

    methods: list[Frame]
    answer: type[Frame]
    is_transactional: bool = False
    publishes: bool = False
    spoils: bool = False


CLOSE = Channel.Close(reply_code=0, class_id=0, method_id=0)
ALL_BACK = Basic.Nack(delivery_tag=0, multiple=True, requeue=True)
LONG = {
    "commit": Long([Tx.Commit()], Tx.CommitOk, is_transactional=True),
    "commit with acks": Long([Tx.Commit()], Tx.CommitOk, is_transactional=True, acks=True),
    "rollback": Long([Tx.Rollback()], Tx.RollbackOk, is_transactional=True),
    "requeue": Long([ALL_BACK, CLOSE], Channel.CloseOk),
    "recover": Long([Basic.Recover(requeue=True)], Basic.RecoverOk),
    "purge": Long([Queue.Purge(queue="full")], Queue.PurgeOk),
    "delete": Long([Queue.Delete(queue="full")], Queue.DeleteOk),
    "cancel": Long([Basic.Cancel(consumer_tag="all")], Basic.CancelOk),
    "close": Long([CLOSE], Channel.CloseOk),
}
OTHERS = {
    "commit": Other([Tx.Commit()], Tx.CommitOk, is_transactional=True, publishes=True),
    "rollback": Other([Tx.Rollback()], Tx.RollbackOk, is_transactional=True),
    "publish": Other([], Basic.Ack, publishes=True),
    "get": Other([Basic.Get(queue="full", no_ack=False)], Basic.GetOk),
    "purge": Other([Queue.Purge(queue="most")], Queue.PurgeOk, spoils=True),
    "delete": Other([Queue.Delete(queue="most")], Queue.DeleteOk, spoils=True),
    "bind": Other([Queue.Bind(queue="full", exchange="keys")], Queue.BindOk),
    "unbind": Other([Queue.Unbind(queue="full", exchange="keys")], Queue.UnbindOk),
    "consume": Other([Basic.Consume(queue="most", consumer_tag="one")], Basic.ConsumeOk),
    "close": Other([CLOSE], Channel.CloseOk),
}
OTHER_ANSWERS: dict[tuple[str, str], type[Frame]] = {
    ("purge", "get"): Basic.GetEmpty,
    ("delete", "get"): Channel.Close,
    ("delete", "bind"): Channel.Close,
}
"""What may come instead, where the queue may be empty or gone already."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedServer]:
    path: Path = tmp_path_factory.mktemp("pairs") / "data"
    with pytest.MonkeyPatch.context() as monkeypatch:
        cut_everywhere(monkeypatch)
        with ThreadedServer(path, stopwatch=Stopwatch()) as server:
            yield server


def prepare(client: AmqpClient) -> None:
    client.open_channel(confirms=True)
    client.call(Exchange.Declare(exchange="keys"), Exchange.DeclareOk)
    client.call(Exchange.Declare(exchange="all", exchange_type="fanout"), Exchange.DeclareOk)
    for name in ("source", "full", "every", "most"):
        client.declare(name, durable=True)
    for name in ("every", "most"):
        client.call(Queue.Bind(queue=name, exchange="all"), Queue.BindOk)
    for name in ("source", "full"):
        for body in BODIES:
            client.publish(body, name, properties=PERSISTENT)
    client.expect_confirmed()


def octets_of(client: AmqpClient, methods: list[Frame]) -> bytes:
    return b"".join(frame.marshal(method, 1) for method in methods)


def publishes(client: AmqpClient, exchange: str, bodies: list[bytes], key: str = "") -> bytes:
    return b"".join(
        client.publish_octets(Basic.Publish(exchange=exchange, routing_key=key), body, PERSISTENT)
        for body in bodies
    )


def answered(client: AmqpClient, *answers: type[Frame]) -> None:
    """Return when one of the answers has come; deliveries may come before it."""
    while not isinstance(client.receive()[1], answers):
        pass


def drained(client: AmqpClient, queue: str) -> list[bytes]:
    return [message.body for message in iter(lambda: client.get(queue), None)]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("long", LONG)
def test_both_are_answered_and_nothing_is_lost_or_doubled(
    server: ThreadedServer, monkeypatch: pytest.MonkeyPatch, long: str, other: str
) -> None:
    doing, meanwhile, vhost = LONG[long], OTHERS[other], f"{long} {other}"
    server.run(lambda: server.server.vhost_changes.create(vhost))
    with (
        connect(server.address, vhost=vhost) as holder,
        connect(server.address, vhost=vhost) as modest,
        connect(server.address, vhost=vhost) as reader,
    ):
        prepare(reader)
        holder.open_channel()
        modest.open_channel(confirms=other == "publish")
        for client, does in ((holder, doing), (modest, meanwhile)):
            if does.is_transactional:
                client.call(Tx.Select(), Tx.SelectOk)
        holder.send(Basic.Consume(queue="source", consumer_tag="all"))
        holder.expect(Basic.ConsumeOk)
        tags = [holder.expect_delivery().tag for _ in BODIES]
        octets = octets_of(holder, doing.methods)
        if doing.is_transactional:
            acks: list[Frame] = [Basic.Ack(delivery_tag=tag) for tag in tags]
            octets = publishes(holder, "all", LARGE) + octets_of(holder, acks * doing.acks) + octets
        less = octets_of(modest, meanwhile.methods)
        if meanwhile.publishes or meanwhile.is_transactional:
            less = publishes(modest, "", [SMALL], "every") + less
        answers = OTHER_ANSWERS.get((long, other), meanwhile.answer), meanwhile.answer
        if long.startswith("commit"):
            # The other one does all of it while the record is made.
            record = StoppedRecord(monkeypatch)
            record.before(1)
            together(server, (holder, octets))
            assert record.has_stopped.wait(HANG_SECONDS)
            together(server, (modest, less))
            answered(modest, *answers)
            record.go_on()
        else:
            together(server, (holder, octets), (modest, less))
            answered(modest, *answers)

        answered(holder, doing.answer)
        for client in (holder, modest):
            client.socket.close()
        server.wait_until(lambda: len(server.connections) == 1)

        committed = LARGE if long.startswith("commit") else []
        assert sorted(drained(reader, "source")) == ([] if doing.acks else sorted(BODIES))
        every = drained(reader, "every")
        assert [body for body in every if body != SMALL] == committed
        assert every.count(SMALL) == meanwhile.publishes
        if not meanwhile.spoils:
            assert drained(reader, "most") == committed
        if long not in ("purge", "delete"):
            assert sorted(drained(reader, "full")) == sorted(BODIES)
