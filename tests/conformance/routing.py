"""Declares exchanges and bindings, and shows which queues a message reaches."""

from collections.abc import Iterable
from typing import Any

from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient


def declare_exchange(client: AmqpClient, exchange: str, kind: str, arguments: Any = None) -> None:  # noqa: ANN401
    """Declare an exchange that goes with the broker."""
    method = Exchange.Declare(exchange=exchange, exchange_type=kind, arguments=arguments)
    client.call(method, Exchange.DeclareOk)


def bind_queue(
    client: AmqpClient,
    queue: str,
    exchange: str,
    key: str = "",
    arguments: Any = None,  # noqa: ANN401
) -> None:
    """Bind a queue to an exchange."""
    method = Queue.Bind(queue=queue, exchange=exchange, routing_key=key, arguments=arguments)
    client.call(method, Queue.BindOk)


def bind_exchange(
    client: AmqpClient,
    target: str,
    source: str,
    key: str = "",
    arguments: Any = None,  # noqa: ANN401
) -> None:
    """Bind an exchange to another one, the source of its messages."""
    method = Exchange.Bind(destination=target, source=source, routing_key=key, arguments=arguments)
    client.call(method, Exchange.BindOk)


def reached(
    client: AmqpClient,
    queues: Iterable[str],
    exchange: str,
    key: str = "",
    headers: Any = None,  # noqa: ANN401
) -> list[str]:
    """Publish one message; return which of the queues got it, as often as they did.

    The queues must be empty and are left so. Confirms must be on.
    """
    properties = Basic.Properties(headers=headers)
    client.publish(b"", key, exchange, properties=properties)
    client.expect_confirmed()
    return drain(client, queues)


def drain(client: AmqpClient, queues: Iterable[str]) -> list[str]:
    """Purge the queues; return the name of each as often as there was a message in it."""
    got: list[str] = []
    for queue in queues:
        purged = client.call(Queue.Purge(queue=queue), Queue.PurgeOk)
        got += [queue] * (purged.message_count or 0)
    return got


def expect_unroutable(client: AmqpClient) -> None:
    """Take the return of a message that reached no queue."""
    method = client.expect_return().method
    assert isinstance(method, Basic.Return)
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
