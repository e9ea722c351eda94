"""SIGKILL under transactional load, again and again: every transaction is whole, or is not.

Publishers put each transaction into three queues; movers take messages from one of them,
publish them to a fourth and acknowledge them, in one transaction. So every message must be in
every queue exactly once or nowhere, and together with all others of its transaction.

`KILL_ROUNDS` and `KILL_SEED` set the length and the luck, as in `test_kill_loop`.
"""

import os
import random
from collections import Counter
from dataclasses import dataclass

import pytest
from pamqp.commands import Basic, Exchange, Queue, Tx

from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.crash.ledger import Ledger, MessageId
from tests.crash.messages import stop_cleanly
from tests.crash.test_kill_loop import (
    DRAIN_ROUNDS,
    kill_in_its_start,
    pass_time,
    server_options,
)
from tests.crash.workers import Worker
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

ROUNDS = int(os.environ.get("KILL_ROUNDS", "6"))
SEED = int(os.environ.get("KILL_SEED", "1"))
SECONDS_A_ROUND = 6
PUBLISHERS = 3
MOVERS = 2
EXCHANGE = "everywhere"
QUEUES = ("moved", "left", "right")
SOURCE = "source"
CONFIRMS_MAX = 300
MESSAGES_MAX = 8
START_KILLED_SHARE = 0.3
INTERPRETED_SHARE = 0.3

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300 + ROUNDS * SECONDS_A_ROUND)]


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
                pass_time(0.005)
                continue
            for message in messages:
                client.publish(message.body, "moved")
            client.send(Basic.Ack(messages[-1].tag, multiple=True))
            if self.chance.random() < 0.1:
                client.call(Tx.Rollback(), Tx.RollbackOk)
                client.send(Basic.Nack(messages[-1].tag, multiple=True, requeue=True))
            client.call(Tx.Commit(), Tx.CommitOk)


def test_over_many_kills_each_transaction_is_applied_whole_or_not_at_all(
    start_server: StartServer,
) -> None:
    chance = random.Random(SEED)
    server = start_server()
    declare(server)
    server.kill()
    ledger = Ledger(QUEUES)
    sent: list[Sent] = []
    totals: Counter[str] = Counter()
    for number in range(1, ROUNDS + 1):
        server.options = tuple(server_options(chance))
        server.interpreted = chance.random() < INTERPRETED_SHARE
        if chance.random() < START_KILLED_SHARE:
            kill_in_its_start(server, chance)
        server.start()
        work_until_killed(server, ledger, sent, chance)
        if number % DRAIN_ROUNDS == 0 or number == ROUNDS:
            server.options, server.interpreted = (), False
            server.start()
            found = {queue: take_all(server, queue) for queue in (SOURCE, *QUEUES)}
            # What was taken must not come back.
            stop_cleanly(server)
            totals["transactions"] += len(sent)
            totals["committed"] += sum(each.is_committed for each in sent)
            totals["moved"] += found["moved"].total()
            totals["in_each_queue"] += found["left"].total()
            found["moved"] += found.pop(SOURCE)
            check(found, sent)
            sent.clear()
            text = " ".join(f"{name}={count}" for name, count in totals.items())
            print(f"transaction kill loop rounds={number} seed={SEED} {text}", flush=True)


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


def declare(server: RunningServer) -> None:
    """Make the exchange and the queues; what goes everywhere goes to the source, too."""
    with connect(server.address) as client:
        client.open_channel()
        fanout = Exchange.Declare(exchange=EXCHANGE, exchange_type="fanout", durable=True)
        client.call(fanout, Exchange.DeclareOk)
        for queue in (SOURCE, *QUEUES):
            client.declare(queue)
            if queue != "moved":
                bind = Queue.Bind(queue=queue, exchange=EXCHANGE, routing_key="")
                client.call(bind, Queue.BindOk)


def work_until_killed(
    server: RunningServer, ledger: Ledger, sent: list[Sent], chance: random.Random
) -> None:
    """Put the server under load, and kill it at a random moment after a random amount of work."""
    seeds = iter(lambda: chance.randrange(1 << 30), -1)
    wanted = ledger.confirmed_count + chance.randrange(1, CONFIRMS_MAX)
    workers: list[Worker] = [
        *(
            TransactionalPublisher(server.address, ledger, next(seeds), number, sent)
            for number in range(PUBLISHERS)
        ),
        *(Mover(server.address, ledger, next(seeds)) for _ in range(MOVERS)),
    ]
    ledger.wait_until_confirmed(wanted, HANG_SECONDS)
    pass_time(chance.uniform(0, 0.03))
    server.kill()
    for worker in workers:
        worker.join()


def take_all(server: RunningServer, queue: str) -> Counter[bytes]:
    """Return what was in a queue, with how often it was."""
    with connect(server.address) as client:
        client.open_channel()
        count = client.ready_count(queue)
        client.consume(queue, no_ack=True)
        found = Counter(client.expect_delivery().body for _ in range(count))
        client.close()
    return found
