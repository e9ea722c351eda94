"""Handlers: what each method does, one file for each class of the protocol.

A handler takes the channel and the method. It answers at once, or returns an awaitable when
the answer must wait for the disk; the connection handles nothing further until it is done.
"""

from __future__ import annotations

from amqp_server.broker.handlers.access import ACCESS_HANDLERS
from amqp_server.broker.handlers.basic import BASIC_HANDLERS
from amqp_server.broker.handlers.channel import CHANNEL_HANDLERS
from amqp_server.broker.handlers.confirm import CONFIRM_HANDLERS
from amqp_server.broker.handlers.exchange import EXCHANGE_HANDLERS
from amqp_server.broker.handlers.handler import Handlers
from amqp_server.broker.handlers.queue import QUEUE_HANDLERS
from amqp_server.broker.handlers.tx import TX_HANDLERS

HANDLERS: Handlers = {
    **ACCESS_HANDLERS,
    **CHANNEL_HANDLERS,
    **EXCHANGE_HANDLERS,
    **QUEUE_HANDLERS,
    **BASIC_HANDLERS,
    **CONFIRM_HANDLERS,
    **TX_HANDLERS,
}
"""Handler by method; a method without one is one that only a server sends."""
