"""confirm.*: publisher confirms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.connections.handlers.handler import Handlers
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.methods import ConfirmSelect, ConfirmSelectOk

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.connections.handlers.handler import MethodSteps


def select(channel: Channel, method: ConfirmSelect) -> MethodSteps:
    """Turn confirms on; a second select changes nothing."""
    if channel.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    yield from channel.publishing.select_confirms()
    if not (method.no_wait or channel.is_closed):
        channel.send(ConfirmSelectOk())
    return None


CONFIRM_HANDLERS: Handlers = {ConfirmSelect: select}
