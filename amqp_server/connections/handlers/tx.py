"""tx.*: publishes, acks and rejects of a channel that take effect together, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.transactions.commit import Commit
from amqp_server.broker.transactions.transaction import Transaction
from amqp_server.connections.handlers.handler import Handlers
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
    from collections.abc import Awaitable, Generator, Iterator

    from amqp_server.broker.channel import Channel
    from amqp_server.protocol.methods import Method


def select(channel: Channel, method: TxSelect) -> None:
    """Make the channel transactional while it is open; a second select changes nothing."""
    if channel.publishing.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel.unacked, channel.broker.transaction_budget)
    channel.send(TxSelectOk())


def commit(
    channel: Channel, method: TxCommit
) -> Generator[None, None, Awaitable[Method | None] | None]:
    """Apply the transaction, in steps; the reply comes when a crash cannot undo it."""
    transaction = _transaction(channel)
    committing = Commit(channel, transaction)
    yield from committing.prepare()
    yield from committing.check()
    committing.take_over(transaction)
    if committing.needs_record:
        return _commit_durably(channel, committing)
    done = channel.broker.commits.add(channel.client, committing.carry_out())
    return None if done.done() and done.exception() is None else done


async def _commit_durably(channel: Channel, committing: Commit) -> None:
    try:
        await channel.broker.commit(committing)
    except RedoUnknownError as error:
        raise PreconditionFailed(
            "transaction may or may not be committed: the redo journal failed and the record could "
            "not be removed; the next start of the server decides"
        ) from error
    except RedoFailedError as error:
        raise PreconditionFailed(
            "transaction not committed: the redo journal could not be written"
        ) from error


def rollback(channel: Channel, method: TxRollback) -> Iterator[None]:
    """Drop the transaction; its acked and rejected deliveries are outstanding again."""
    yield from channel.roll_back(_transaction(channel))
    channel.send(TxRollbackOk())


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return channel.transaction


TX_HANDLERS: Handlers = {TxSelect: select, TxCommit: commit, TxRollback: rollback}
