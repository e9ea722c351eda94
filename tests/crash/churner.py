"""A client that purges, deletes and declares, and knows which state a kill may leave."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from pamqp.commands import Channel, Queue

from tests.amqp_client import AmqpClient
from tests.crash.ledger import Ledger
from tests.crash.workers import Worker

MESSAGES_MAX = 30


@dataclass(slots=True)
class Churn:
    """What the client knows, through all kills.

    Attributes:
        next_number: Of the next message.
        confirmed: Numbers of messages that must be there, unless they are below `asked_floor`.
        gone_floor: A purge or delete was answered: nothing below it may come again.
        asked_floor: One was asked for: nothing below it need be there.
        rounds: Purges and deletions that were answered.
        checks: How often the queue was held against this.
    """

    next_number: int = 0
    confirmed: list[int] = field(default_factory=list)
    gone_floor: int = 0
    asked_floor: int = 0
    rounds: int = 0
    checks: int = 0


class Churner(Worker):
    """Fills a queue of its own, looks at it, and empties it in one of three ways.

    Attributes:
        queue: Its queue.
        has_checked: Set when it has seen what the kill before has left.
    """

    queue = "brief"

    def __init__(self, address: tuple[str, int], ledger: Ledger, seed: int, churn: Churn) -> None:
        self.churn = churn
        self.has_checked = threading.Event()
        super().__init__(address, ledger, seed)

    def work(self, client: AmqpClient) -> None:
        """Check what the kill before has left, then go on."""
        client.open_channel(confirms=True)
        client.declare(self.queue)
        self.check(client)
        self.has_checked.set()
        while True:
            self._fill(client)
            if self.chance.random() < 0.2:
                self.check(client)
            self._empty(client)

    def check(self, client: AmqpClient) -> None:
        """Take everything, hold it against the history, and give it back."""
        churn = self.churn
        client.open_channel(2)
        found = []
        while (message := client.get(self.queue, no_ack=False, channel=2)) is not None:
            found.append(int(message.body.partition(b" ")[0]))
        client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk, 2)
        assert found == sorted(set(found)), f"disordered or twice: {found}"
        back = [number for number in found if number < churn.gone_floor]
        assert not back, f"purged or deleted, and back: {back}"
        must = [number for number in churn.confirmed if number >= churn.asked_floor]
        lost = sorted(set(must) - set(found))
        assert not lost, f"confirmed, and lost: {lost}"
        assert not [number for number in found if number >= churn.next_number], "never published"
        churn.checks += 1

    def _fill(self, client: AmqpClient) -> None:
        churn = self.churn
        first = churn.next_number
        churn.next_number += self.chance.randrange(1, MESSAGES_MAX)
        for number in range(first, churn.next_number):
            client.publish(b"%d " % number * 100, self.queue)
        client.expect_confirmed()
        churn.confirmed += range(first, churn.next_number)

    def _empty(self, client: AmqpClient) -> None:
        churn = self.churn
        way = self.chance.randrange(3)
        if way == 0:
            return
        churn.asked_floor = churn.next_number
        if way == 1:
            client.call(Queue.Purge(queue=self.queue), Queue.PurgeOk)
        else:
            client.call(Queue.Delete(queue=self.queue), Queue.DeleteOk)
        churn.gone_floor = churn.next_number
        churn.rounds += 1
        churn.confirmed.clear()
        if way == 2:
            client.declare(self.queue)
