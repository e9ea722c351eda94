"""Exchanges, queues and bindings without anything behind them: routing needs only names."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from amqp_server.broker.binding import Binding
from amqp_server.broker.exchange import Exchange
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.protocol.properties import Properties
from appendlog.layout.message import HAS_HEADERS, encode_message

if TYPE_CHECKING:
    from amqp_server.broker.binding import Destination
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.tables import Table


class NamedQueue:
    """What routing knows of a queue: a name, and whether bindings to it survive."""

    def __init__(self, name: str, *, is_journaled: bool = True) -> None:
        self.name = name
        self.is_journaled = is_journaled
        self.is_deleted = False

    @property
    def is_gone(self) -> bool:
        return self.is_deleted

    def __repr__(self) -> str:
        return f"<queue {self.name}>"


def a_queue(name: str, *, is_journaled: bool = True) -> Queue:
    return cast("Queue", NamedQueue(name, is_journaled=is_journaled))


def an_exchange(
    name: str,
    kind: str = "fanout",
    *,
    durable: bool = True,
    auto_delete: bool = False,
    arguments: Table | None = None,
) -> Exchange:
    return Exchange(
        name,
        kind,
        durable=durable,
        auto_delete=auto_delete,
        internal=False,
        arguments=arguments or {},
    )


def sent(key: str = "", headers: Table | None = None) -> Envelope:
    """Return the envelope of a message without a body."""
    properties = Properties(headers=headers).encode()
    return Envelope(
        (key,), encode_message(HAS_HEADERS if headers else 0, b"", b"", properties, b"")
    )


def remove(vhost: VirtualHost, end: Destination, step: int = 1000) -> list[Binding]:
    """Remove a queue or an exchange, then its bindings in steps; return these."""
    if isinstance(end, Exchange):
        vhost.remove_exchange(end)
    else:
        end.is_deleted = True
        vhost.remove_queue(end)
    gone: list[Binding] = []
    while some := vhost.unlink_some(end, step):
        assert len(some) <= step
        gone += some
    return gone


SOURCE = an_exchange("source")


def bind(key: str = "", arguments: Table | None = None, to: Destination | None = None) -> Binding:
    """Return a binding to a queue of its own, named for the key."""
    return Binding(SOURCE, to or a_queue(key), key, arguments or {})
