"""Methods of class tx (90): transactions on one channel."""

from amqp_server.protocol.constants import ClassId
from amqp_server.protocol.methods.codec import Method, method

_CLASS = ClassId.TX


@method("tx.select", _CLASS, 10)
class TxSelect(Method):
    """Client: make the channel transactional."""


@method("tx.select-ok", _CLASS, 11)
class TxSelectOk(Method):
    """Server: the channel is transactional."""


@method("tx.commit", _CLASS, 20)
class TxCommit(Method):
    """Client: perform the publishes and acknowledgements of the transaction."""


@method("tx.commit-ok", _CLASS, 21)
class TxCommitOk(Method):
    """Server: the transaction is performed."""


@method("tx.rollback", _CLASS, 30)
class TxRollback(Method):
    """Client: discard the publishes and acknowledgements of the transaction."""


@method("tx.rollback-ok", _CLASS, 31)
class TxRollbackOk(Method):
    """Server: the publishes and acknowledgements of the transaction are discarded."""


TX_METHODS: tuple[type[Method], ...] = (
    TxSelect,
    TxSelectOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
)
