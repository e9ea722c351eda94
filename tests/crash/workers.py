"""The clients of a kill loop: each a thread that works until its server is gone."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections import deque

from pamqp.commands import Basic

from tests.amqp_client import PERSISTENT, AmqpClient, ConnectionLostError, connect
from tests.crash.ledger import Ledger, MessageId
from tests.limits import HANG_SECONDS

WINDOW_MESSAGES = 40
PREFETCH = 60
PINNED_ONE_IN = 40


class Worker(ABC):
    """A client in a thread of its own; it ends when the server does, and only then.

    Args:
        address: Of the server.
        ledger: Where it writes what happens.
        seed: Of its random choices.
    """

    def __init__(self, address: tuple[str, int], ledger: Ledger, seed: int) -> None:
        self.ledger = ledger
        self.chance = random.Random(seed)
        self._address = address
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Return when it has noticed that the server is gone.

        Raises:
            Exception: What else ended it.
        """
        self._thread.join(HANG_SECONDS)
        assert not self._thread.is_alive(), f"{self._thread.name} did not notice the end"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with self._connect() as client:
                self.work(client)
        except (ConnectionLostError, ConnectionError):
            pass
        except Exception as error:  # noqa: BLE001 - raised again by join
            self._failure = error

    def _connect(self) -> AmqpClient:
        return connect(self._address)

    @abstractmethod
    def work(self, client: AmqpClient) -> None:
        """Work until ConnectionLostError."""


class Publisher(Worker):
    """Publishes to an exchange, with at most `WINDOW_MESSAGES` unconfirmed."""

    def __init__(
        self, address: tuple[str, int], ledger: Ledger, seed: int, number: int, exchange: str
    ) -> None:
        self.number = number
        self.method = Basic.Publish(0, exchange, "")
        super().__init__(address, ledger, seed)

    def work(self, client: AmqpClient) -> None:
        """Fill the window, take one answer, and again."""
        client.open_channel(confirms=True)
        unconfirmed: deque[MessageId] = deque()
        next_tag = 1
        while True:
            octets = []
            for _ in range(WINDOW_MESSAGES - len(unconfirmed)):
                message = self.ledger.send(self.number)
                unconfirmed.append(message)
                octets.append(client.publish_octets(self.method, message.body, PERSISTENT))
            client.send_raw(b"".join(octets))
            _, answer = client.receive()
            assert isinstance(answer, Basic.Ack | Basic.Nack), answer.name
            assert answer.delivery_tag is not None
            assert answer.multiple or answer.delivery_tag == next_tag, "a confirm was left out"
            answered = [unconfirmed.popleft() for _ in range(answer.delivery_tag + 1 - next_tag)]
            next_tag = answer.delivery_tag + 1
            if isinstance(answer, Basic.Ack):
                self.ledger.confirm(answered)
            else:
                self.ledger.refuse(answered)


class Consumer(Worker):
    """Consumes a queue; acknowledges one by one, many at a time, late, or requeues.

    Args:
        address: Of the server.
        ledger: Where it writes what happens.
        seed: Of its random choices.
        queue: Which.
    """

    def __init__(self, address: tuple[str, int], ledger: Ledger, seed: int, queue: str) -> None:
        self.queue = queue
        super().__init__(address, ledger, seed)

    def work(self, client: AmqpClient) -> None:
        """Take deliveries and answer them, in one of the ways."""
        session = self.ledger.next_session()
        client.open_channel()
        client.consume(self.queue, prefetch=PREFETCH)
        held: list[int] = []
        while True:
            message = client.expect_delivery()
            self.ledger.deliver(
                self.queue, message.body, redelivered=message.redelivered, session=session
            )
            held.append(message.tag)
            if len(held) >= PREFETCH // 2:
                self._answer(client, held)

    def _answer(self, client: AmqpClient, held: list[int]) -> None:
        way = self.chance.randrange(4)
        if way == 0:
            client.send(Basic.Ack(held[-1], multiple=True))
            held.clear()
            return
        if way == 1:
            self.chance.shuffle(held)
        kept = self.chance.randrange(10)
        for tag in held[kept:]:
            if self.chance.random() < 0.05:
                client.send(Basic.Nack(tag, requeue=True))
            else:
                client.send(Basic.Ack(tag))
        held[kept:] = []
        held.sort()


class Pinner(Consumer):
    """Never answers one message in `PINNED_ONE_IN`, always the same ones, and settles the rest.

    So segments stay that are mostly settled: what compaction is for.
    """

    def work(self, client: AmqpClient) -> None:
        """Take deliveries and settle most of them."""
        session = self.ledger.next_session()
        client.open_channel()
        client.consume(self.queue, prefetch=0)
        while True:
            message = client.expect_delivery()
            self.ledger.deliver(
                self.queue, message.body, redelivered=message.redelivered, session=session
            )
            sequence = int(message.body.partition(b" ")[0].partition(b":")[2])
            if sequence % PINNED_ONE_IN:
                client.send(Basic.Ack(message.tag))
