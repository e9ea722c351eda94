"""Handlers: what the broker does for each method, one file for each class of the protocol.

A handler takes the channel and the method. It replies at once, or returns an awaitable if the reply
must wait for the disk. The connection handles no further method until the awaitable is done.
"""

from __future__ import annotations

from amqp_server.connections.handlers.access import ACCESS_HANDLERS
from amqp_server.connections.handlers.basic import BASIC_HANDLERS
from amqp_server.connections.handlers.channel import CHANNEL_HANDLERS
from amqp_server.connections.handlers.confirm import CONFIRM_HANDLERS
from amqp_server.connections.handlers.exchange import EXCHANGE_HANDLERS
from amqp_server.connections.handlers.handler import Handlers
from amqp_server.connections.handlers.queue import QUEUE_HANDLERS
from amqp_server.connections.handlers.tx import TX_HANDLERS

HANDLERS: Handlers = {
    **ACCESS_HANDLERS,
    **CHANNEL_HANDLERS,
    **EXCHANGE_HANDLERS,
    **QUEUE_HANDLERS,
    **BASIC_HANDLERS,
    **CONFIRM_HANDLERS,
    **TX_HANDLERS,
}
"""Handler of each method; methods that only a server sends have none."""
