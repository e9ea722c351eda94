"""tx.*: publishes and answers of a channel that happen together, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.handlers.handler import Handlers
from amqp_server.broker.transactions.commit import Commit
from amqp_server.broker.transactions.transaction import Transaction
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.methods import (
    TxCommit,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from offsets import RedoFailedError, RedoUnknownError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.broker.channel import Channel


def select(channel: Channel, method: TxSelect) -> None:
    """Make the channel transactional, for as long as it is open; once is enough."""
    if channel.publishing.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel.unacked, channel.broker.transaction_budget)
    channel.send(TxSelectOk())


def commit(channel: Channel, method: TxCommit) -> Awaitable[None] | None:
    """Do what was held back; answered when a crash cannot undo it."""
    transaction = _transaction(channel)
    committing = Commit(channel, *transaction.held)
    committing.check()
    committing.held_bytes = transaction.begin_next()
    if committing.needs_record:
        return _commit_durably(channel, committing)
    committing.carry_out()
    return None


async def _commit_durably(channel: Channel, committing: Commit) -> None:
    try:
        await channel.broker.commit(committing)
    except RedoUnknownError as error:
        raise PreconditionFailed(
            "transaction may be committed or not, a restart will tell: the disk refused it, "
            "and refused to take it back"
        ) from error
    except RedoFailedError as error:
        raise PreconditionFailed("transaction not committed: the disk refused it") from error


def rollback(channel: Channel, method: TxRollback) -> None:
    """Forget what was held back; the answered deliveries are outstanding again."""
    _transaction(channel).roll_back()
    channel.send(TxRollbackOk())


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return channel.transaction


TX_HANDLERS: Handlers = {TxSelect: select, TxCommit: commit, TxRollback: rollback}
