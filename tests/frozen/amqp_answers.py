"""What clients of AMQP are answered: objects of every kind, and the error of each mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Confirm, Connection, Exchange, Queue, Tx
from pamqp.header import ContentHeader

from tests.amqp_client import AmqpClient, AnyDeclare, Message, connect, describe

Arguments = dict[str, Any]

QUEUES: Final[dict[str, Arguments]] = {
    "classic": {},
    "quorum": {"x-queue-type": "quorum", "x-delivery-limit": 5},
    "stream": {"x-queue-type": "stream", "x-max-age": "1h", "x-max-length-bytes": 1_000_000},
    "priority": {"x-max-priority": 5},
    "limited": {
        "x-max-length": 2,
        "x-overflow": "reject-publish",
        "x-message-ttl": 60_000,
        "x-expires": 3_600_000,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "classic",
    },
    "single": {"x-single-active-consumer": True},
}
EXCHANGES: Final[dict[str, tuple[str, Arguments]]] = {
    "direct": ("direct", {}),
    "fanout": ("fanout", {}),
    "topic": ("topic", {"alternate-exchange": "fanout"}),
    "headers": ("headers", {}),
    "delayed": ("x-delayed-message", {"x-delayed-type": "direct"}),
    "hashing": ("x-consistent-hash", {}),
}


def objects() -> Iterator[tuple[str, Frame]]:
    """Yield what makes an object of each kind, with a title."""
    for name, (kind, arguments) in EXCHANGES.items():
        yield (
            f"exchange {name}",
            Exchange.Declare(exchange=name, exchange_type=kind, durable=True, arguments=arguments),
        )
    for name, arguments in QUEUES.items():
        yield f"queue {name}", AnyDeclare(queue=name, durable=True, arguments=arguments)
    for name in EXCHANGES:
        key = "1" if name == "hashing" else "key"
        matched: Arguments = {"x-match": "all", "a": 1} if name == "headers" else {}
        yield (
            f"binding {name}",
            Queue.Bind(queue="classic", exchange=name, routing_key=key, arguments=matched),
        )
    yield (
        "binding of exchanges",
        Exchange.Bind(destination="fanout", source="direct", routing_key="all"),
    )
    yield "transient queue", AnyDeclare(queue="transient", auto_delete=True)
    yield "exclusive queue", AnyDeclare(queue="exclusive", exclusive=True)


def questions() -> Iterator[tuple[str, Frame]]:
    """Yield what is answered, well or with an error, once the objects are there."""
    yield "declare again", AnyDeclare(queue="classic", durable=True)
    yield "declare passively", AnyDeclare(queue="classic", passive=True)
    yield "passive, not there", AnyDeclare(queue="nowhere", passive=True)
    yield "another durable", AnyDeclare(queue="classic")
    yield "another auto-delete", AnyDeclare(queue="classic", durable=True, auto_delete=True)
    yield "another argument", AnyDeclare(queue="classic", durable=True, arguments={"x-expires": 9})
    yield (
        "another value",
        AnyDeclare(queue="priority", durable=True, arguments={"x-max-priority": 6}),
    )
    yield (
        "another type",
        AnyDeclare(queue="classic", durable=True, arguments={"x-queue-type": "stream"}),
    )
    yield "reserved name", AnyDeclare(queue="amq.mine")
    yield "negative", AnyDeclare(queue="new", arguments={"x-max-length": -1})
    yield "wrong kind of value", AnyDeclare(queue="new", arguments={"x-expires": "soon"})
    yield "transient stream", AnyDeclare(queue="new", arguments={"x-queue-type": "stream"})
    yield "unknown queue type", AnyDeclare(queue="new", arguments={"x-queue-type": "round"})
    yield (
        "exchange again",
        Exchange.Declare(exchange="direct", exchange_type="direct", durable=True),
    )
    yield (
        "exchange of another type",
        Exchange.Declare(exchange="direct", exchange_type="topic", durable=True),
    )
    yield "exchange of an unknown type", Exchange.Declare(exchange="new", exchange_type="round")
    yield (
        "exchange with a reserved name",
        Exchange.Declare(exchange="amq.mine", exchange_type="direct"),
    )
    yield "exchange passively", Exchange.Declare(exchange="nowhere", passive=True)
    yield "bind to nothing", Queue.Bind(queue="classic", exchange="nowhere", routing_key="a")
    yield "bind nothing", Queue.Bind(queue="nowhere", exchange="direct", routing_key="a")
    yield "bind to the default exchange", Queue.Bind(queue="classic", exchange="", routing_key="a")
    yield (
        "unbind what is not bound",
        Queue.Unbind(queue="classic", exchange="direct", routing_key="other"),
    )
    yield "delete the default exchange", Exchange.Delete(exchange="")
    yield "delete amq.direct", Exchange.Delete(exchange="amq.direct")
    yield "delete a used exchange", Exchange.Delete(exchange="direct", if_unused=True)
    yield "delete a full queue", Queue.Delete(queue="classic", if_empty=True)
    yield "delete what is not there", Queue.Delete(queue="nowhere")
    yield "purge", Queue.Purge(queue="single")
    yield "purge what is not there", Queue.Purge(queue="nowhere")
    yield "purge a stream", Queue.Purge(queue="stream")
    yield "get", Basic.Get(queue="classic")
    yield "get from nothing", Basic.Get(queue="nowhere")
    yield "get from an empty queue", Basic.Get(queue="single")
    yield "get from a stream", Basic.Get(queue="stream")
    yield "consume from nothing", Basic.Consume(queue="nowhere", consumer_tag="c")
    yield (
        "consume from a stream without a prefetch",
        Basic.Consume(queue="stream", consumer_tag="c"),
    )
    yield (
        "consume with a wrong priority",
        Basic.Consume(queue="classic", consumer_tag="c", arguments={"x-priority": "high"}),
    )
    yield "cancel what is not there", Basic.Cancel(consumer_tag="none")
    yield "acknowledge what was not delivered", Basic.Ack(delivery_tag=7)
    yield "reject what was not delivered", Basic.Reject(delivery_tag=7)
    yield "recover", Basic.Recover(requeue=True)
    yield "recover without requeue", Basic.Recover(requeue=False)
    yield "the exclusive queue of another connection", AnyDeclare(queue="exclusive")
    yield "prefetch in octets", Basic.Qos(prefetch_size=5)
    yield "confirms", Confirm.Select()
    yield "commit without a transaction", Tx.Commit()
    yield "transaction", Tx.Select()
    yield "flow", Channel.Flow(active=False)
    yield "open again", Channel.Open()
    yield "publish to no exchange", Basic.Publish(exchange="nowhere", routing_key="a")


def answers(address: tuple[str, int]) -> Iterator[str]:
    """Ask a broker that has nothing yet; yield a line for each answer.

    One connection owns the objects, each question has a connection of its own: mistakes of any
    class then end nothing else.
    """
    with connect(address) as owner:
        owner.open_channel(confirms=True)
        for title, method in objects():
            owner.send(method, 1)
            yield f"{title}: {describe(owner.receive()[1])}"
        for key in ("classic", "stream", "priority"):
            owner.publish(key.encode(), key, properties=Basic.Properties(delivery_mode=2))
            yield f"publish to {key}: {describe(owner.receive()[1])}"
        for title, method in questions():
            with connect(address) as client:
                client.open_channel()
                yield f"{title}: {' '.join(_answer(client, method))}"
        yield f"login with a wrong password: {_refused_login(address)}"
        yield f"login to another virtual host: {_refused_vhost(address)}"


def _answer(client: AmqpClient, method: Frame) -> Iterator[str]:
    if isinstance(method, Basic.Publish):
        client.publish(b"", method.routing_key, exchange=method.exchange)
    else:
        client.send(method, 1)
    # What has no answer is followed by the answer of the second method.
    client.send(Basic.Qos(prefetch_count=1), 1)
    while True:
        _, value = client.receive()
        if isinstance(value, Basic.QosOk):
            return
        if isinstance(value, Message | ContentHeader) or not isinstance(value, Frame):
            continue
        yield describe(value)
        if isinstance(value, Connection.Close | Channel.Close):
            return


def _refused_login(address: tuple[str, int]) -> str:
    with AmqpClient(address) as client:
        client.start(user="guest", password="wrong")
        return describe(client.receive()[1])


def _refused_vhost(address: tuple[str, int]) -> str:
    with AmqpClient(address) as client:
        client.login()
        client.send(Connection.TuneOk(100, 131072, 0), 0)
        client.send(Connection.Open(virtual_host="nowhere"), 0)
        return describe(client.receive()[1])
