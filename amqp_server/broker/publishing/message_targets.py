"""Where one message goes whose routing key does not say all: by its headers, or to copies."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from amqp_server.access.permissions import Right
from amqp_server.broker.consuming.direct_reply import reply_keys_of
from amqp_server.broker.publishing.publish_checks import check_header_values
from amqp_server.broker.publishing.publish_targets import PublishTarget
from amqp_server.broker.rights import when_answered
from amqp_server.broker.routing.carbon_copies import may_have_copies, take_copies
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.transfers.large_body import with_body, without_large_body
from amqp_server.protocol.errors import AccessRefused
from amqp_server.protocol.methods import BasicPublish
from appendlog.layout.message import HAS_HEADERS, routing_key_of

if TYPE_CHECKING:
    from amqp_server.base.config import ServerConfig
    from amqp_server.broker.client import Client
    from amqp_server.broker.routing.steps import Steps
    from amqp_server.broker.turn import Turn
    from amqp_server.broker.virtual_host import VirtualHost


class RoutingBroker(Protocol):
    """The broker, as the routing of single messages sees it."""

    @property
    def turn(self) -> Turn:
        """Turn of the event loop."""

    @property
    def config(self) -> ServerConfig:
        """Settings and limits."""


class MessageTargets:
    """Finds the targets of single messages of one connection.

    Args:
        virtual_host: Virtual host that the connection opened.
        broker: Broker of the whole server.
        client: The connection, which waits while a permission is not known yet.
    """

    __slots__ = ("_broker", "_client", "_virtual_host")

    def __init__(self, virtual_host: VirtualHost, broker: RoutingBroker, client: Client) -> None:
        self._virtual_host = virtual_host
        self._broker = broker
        self._client = client

    def find(self, target: PublishTarget, message: bytes) -> Steps[tuple[PublishTarget, bytes]]:
        """Return a message's own target, and the form in which the queues store the message.

        Args:
            target: Target of its publish frame.
            message: The message.

        Raises:
            AmqpError: The message cannot be routed, or may not be.
        """
        copies: tuple[str, ...] = ()
        front = taken = message
        body: memoryview | None = None
        limits = self._broker.config.limits
        if message[0] & HAS_HEADERS:
            has_copies = may_have_copies(message)
            if has_copies or target.routes_singly:
                check_header_values(message, limits.header_values_max)
            if has_copies:
                front, body = without_large_body(message)
                copies, taken = take_copies(front, limits.copies_max)
        for key in copies:
            try:
                require = partial(
                    self._client.rights.require_topic, Right.WRITE, target.exchange, key
                )
                yield from when_answered(self._client, require)
            except AccessRefused as error:
                raise error.with_method(*BasicPublish.ids) from None
            if self._broker.turn.time_slice.is_over:
                yield
        # First the queues, then the copy: the exchange may be deleted while a large body is copied.
        if copies or target.routes_singly:
            keys = (routing_key_of(message).decode("utf-8", "surrogateescape"), *copies)
            envelope = Envelope(keys, taken, limits.route_visits_max)
            routing = self._virtual_host.routing
            queues = yield from routing.route_in_steps(target.exchange, envelope)
            replies = reply_keys_of(target.exchange, keys)
            target = PublishTarget(
                target.exchange,
                target.mandatory,
                routes_singly=False,
                queues=queues,
                reply_keys=replies,
                is_plain=not replies and (bool(queues) or not target.mandatory),
                routes_version=target.routes_version,
            )
            if copies and queues == (self._virtual_host.delay_queues.get(target.exchange),):
                # The delay queue stores the message unchanged; `BCC` is removed after the delay.
                taken = front
        if taken is front:
            return target, message
        stored = taken if body is None else (yield from with_body(taken, body))
        return target, stored
