"""Transactions that must be in several queues or in none, and what holds them against that.

Publishers put each transaction into three queues; movers take messages from one of them,
publish them to a fourth and acknowledge them, in one transaction. So every message must be in
every queue exactly once or nowhere, and together with all others of its transaction.
"""

import threading
from collections import Counter
from dataclasses import dataclass

from pamqp.commands import Basic, Exchange, Queue, Tx

from tests.amqp_client import AmqpClient, connect
from tests.crash.ledger import Ledger, MessageId
from tests.crash.workers import Worker

EXCHANGE = "transactions"
MOVED = "moved"
QUEUES = (MOVED, "left", "right")
SOURCE = "source"
MESSAGES_MAX = 8


@dataclass(eq=False, slots=True)
class Sent:
    """A transaction that a publisher wanted to commit, and whether it got commit-ok."""

    messages: list[MessageId]
    is_committed: bool = False


class TransactionalPublisher(Worker):
    """Publishes to all queues, one to `MESSAGES_MAX` messages in a transaction."""

    def __init__(
        self, address: tuple[str, int], ledger: Ledger, seed: int, number: int, sent: list[Sent]
    ) -> None:
        self.number = number
        self.sent = sent
        super().__init__(address, ledger, seed)

    def work(self, client: AmqpClient) -> None:
        """Publish, and commit; or roll back, now and then."""
        client.open_channel()
        client.call(Tx.Select(), Tx.SelectOk)
        while True:
            count = self.chance.randrange(1, MESSAGES_MAX + 1)
            transaction = Sent([self.ledger.send(self.number) for _ in range(count)])
            for message in transaction.messages:
                client.publish(message.body, "", EXCHANGE)
            if self.chance.random() < 0.1:
                client.call(Tx.Rollback(), Tx.RollbackOk)
                continue
            self.sent.append(transaction)
            client.call(Tx.Commit(), Tx.CommitOk)
            transaction.is_committed = True
            self.ledger.confirm(transaction.messages)


class Mover(Worker):
    """Takes messages from the source and publishes them to `moved`, in one transaction."""

    def work(self, client: AmqpClient) -> None:
        """Take some, publish them, acknowledge them, commit; or think better of it."""
        client.open_channel()
        client.call(Tx.Select(), Tx.SelectOk)
        while True:
            wanted = range(self.chance.randrange(1, 6))
            taken = [client.get(SOURCE, no_ack=False) for _ in wanted]
            messages = [message for message in taken if message is not None]
            if not messages:
                threading.Event().wait(0.005)
                continue
            for message in messages:
                client.publish(message.body, MOVED)
            client.send(Basic.Ack(messages[-1].tag, multiple=True))
            if self.chance.random() < 0.1:
                client.call(Tx.Rollback(), Tx.RollbackOk)
                client.send(Basic.Nack(messages[-1].tag, multiple=True, requeue=True))
            client.call(Tx.Commit(), Tx.CommitOk)


def declare(address: tuple[str, int]) -> None:
    """Make the exchange and the queues; what goes everywhere goes to the source, too."""
    with connect(address) as client:
        client.open_channel()
        fanout = Exchange.Declare(exchange=EXCHANGE, exchange_type="fanout", durable=True)
        client.call(fanout, Exchange.DeclareOk)
        for queue in (SOURCE, *QUEUES):
            client.declare(queue)
            if queue != MOVED:
                bind = Queue.Bind(queue=queue, exchange=EXCHANGE, routing_key="")
                client.call(bind, Queue.BindOk)


def take_all(address: tuple[str, int], queue: str) -> Counter[bytes]:
    """Return what was in a queue, with how often it was."""
    with connect(address) as client:
        client.open_channel()
        count = client.ready_count(queue)
        client.consume(queue, no_ack=True)
        found = Counter(client.expect_delivery().body for _ in range(count))
        client.close()
    return found


def check(found: dict[str, Counter[bytes]], sent: list[Sent]) -> None:
    """Check that every queue has the same, once, and that it is whole transactions."""
    present = found["left"].keys()
    for queue, counts in found.items():
        assert counts.keys() == present, f"{queue} and left differ"
        twice = [body[:20] for body, count in counts.items() if count > 1]
        assert not twice, f"more than once in {queue}: {twice}"
    expected = 0
    for transaction in sent:
        is_present = {message.body in present for message in transaction.messages}
        assert len(is_present) == 1, f"a part of {transaction}"
        assert is_present == {True} or not transaction.is_committed, f"lost: {transaction}"
        expected += len(transaction.messages) * is_present.pop()
    assert len(present) == expected, "something that was never committed"
