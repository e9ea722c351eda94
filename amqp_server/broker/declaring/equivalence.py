"""Checks of repeated declares: the same name must have the same properties.

Source: RabbitMQ `rabbit_misc:assert_args_equivalence` and its texts. Only arguments with an effect
are compared, so that a client may add others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.declaring.names import locked
from amqp_server.broker.declaring.queue_arguments import compared_arguments
from amqp_server.broker.transfers.delay import DELAYED_KIND, DELAYED_TYPE
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_comparison import describe_difference, same_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.methods import ExchangeDeclare, QueueDeclare
    from amqp_server.protocol.tables import Table

_EXCHANGE_ARGUMENTS = ("alternate-exchange",)


def check_equivalent_exchange(
    vhost: VirtualHost, exchange: Exchange, method: ExchangeDeclare
) -> None:
    """Check that an exchange has the declared properties.

    Raises:
        PreconditionFailed: A property differs.
    """
    where = f"exchange '{exchange.name}' in vhost '{vhost.name}'"
    _same("type", where, _atom(method.type), _atom(exchange.type))
    _same("durable", where, _truth(method.durable), _truth(exchange.durable))
    _same("auto_delete", where, _truth(method.auto_delete), _truth(exchange.auto_delete))
    _same("internal", where, _truth(method.internal), _truth(exchange.internal))
    names = (
        (*_EXCHANGE_ARGUMENTS, DELAYED_TYPE) if method.type == DELAYED_KIND else _EXCHANGE_ARGUMENTS
    )
    _same_arguments(names, where, method.arguments, exchange.arguments)


def check_equivalent_queue(queue: Queue, method: QueueDeclare) -> None:
    """Check that a queue has the declared properties.

    Raises:
        PreconditionFailed: A property differs.
        ResourceLocked: Only one of the two is exclusive.
    """
    where = f"queue '{queue.name}' in vhost '{queue.virtual_host.name}'"
    if method.exclusive != (queue.exclusive_owner is not None):
        raise locked(queue)
    if not method.exclusive:
        # An exclusive queue is deleted with its connection anyway: RabbitMQ does not compare here.
        _same("durable", where, _truth(method.durable), _truth(queue.durable))
    _same("auto_delete", where, _truth(method.auto_delete), _truth(queue.auto_delete))
    names = compared_arguments(queue.settings.type)
    _same_arguments(names, where, method.arguments, queue.arguments)


def _same(argument: str, where: str, received: str, current: str) -> None:
    if received != current:
        raise PreconditionFailed(
            f"inequivalent arg '{argument}' for {where}: "
            f"received '{received}' but current is '{current}'"
        )


def _same_arguments(names: Sequence[str], where: str, received: Table, current: Table) -> None:
    for name in names:
        ours, theirs = current.get(name), received.get(name)
        if ours is None and theirs is None:
            continue
        if ours is not None and theirs is not None and same_value(ours, theirs):
            continue
        if name == "x-queue-type" and _queue_type(ours) == _queue_type(theirs):
            continue
        raise PreconditionFailed(
            f"inequivalent arg '{name}' for {where}: {describe_difference(theirs, ours)}"
        )


def _queue_type(value: object) -> object:
    """Return the octets of a queue type; a queue without the argument is a classic one."""
    return getattr(value, "value", b"classic")


def _atom(kind: str) -> str:
    """Return a type as RabbitMQ's texts show it: Erlang quotes an atom with a hyphen."""
    return f"'{kind}'" if "-" in kind else kind


def _truth(value: bool) -> str:
    return "true" if value else "false"
