"""Clients that come back: they lose the broker, and look for it at the same address."""

from __future__ import annotations

import socket
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Final

from pamqp.commands import Basic, Channel

from tests.amqp_client import PERSISTENT, AmqpClient, ConnectionLostError, connect
from tests.conformance.streams import offset_of
from tests.crash.churner import Churn, Churner
from tests.crash.ledger import Ledger
from tests.crash.transactions import Mover, TransactionalPublisher
from tests.crash.workers import Consumer, Publisher, Worker
from tests.limits import HANG_SECONDS
from tests.moving.kept import Kept
from tests.moving.offsets import Offsets

_CONNECT_SECONDS: Final = 0.25
"""After which a connection that is not there yet is given up: a frozen machine answers nothing."""
_PAUSE_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 0.5
"""After which a prober gives up a broker that does not answer."""
_BATCH: Final = 40
_PREFETCH: Final = 200
_READ_AGAIN_MAX: Final = 1000
Address = tuple[str, int]


class Returning(Worker):
    """A worker that connects again whenever its connection is lost, until it is told to end.

    Its connection notices that nobody is there any more within two seconds, as those of clients
    with heartbeats do later.

    Attributes:
        connections: How often it has connected.
    """

    answer_seconds = float(HANG_SECONDS)

    def __init__(self, address: Address, ledger: Ledger, seed: int, *more: Any) -> None:  # noqa: ANN401
        self._is_over = threading.Event()
        self.connections = 0
        super().__init__(address, ledger, seed, *more)

    @property
    def failure(self) -> Exception | None:
        """What it has found wrong, or what else has ended it."""
        return self._failure

    def end(self) -> None:
        """Let it end when it loses its connection."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                with self._connect() as client:
                    self.connections += 1
                    self.work(client)
            except (ConnectionLostError, OSError):
                self._is_over.wait(_PAUSE_SECONDS)
            except Exception as error:  # noqa: BLE001 - raised again by join
                self._failure = error
                return

    def _connect(self) -> AmqpClient:
        over = socket.create_connection(self._address, timeout=_CONNECT_SECONDS)
        over.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        over.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
        over.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        over.settimeout(self.answer_seconds)
        return connect(self._address, over=over)


class ReturningPublisher(Returning, Publisher):
    """A `Publisher` that comes back."""


class ReturningConsumer(Returning, Consumer):
    """A `Consumer` that comes back."""


class ReturningTransactions(Returning, TransactionalPublisher):
    """A `TransactionalPublisher` that comes back."""


class ReturningMover(Returning, Mover):
    """A `Mover` that comes back."""


class ReturningChurner(Returning, Churner):
    """A `Churner` that comes back."""


class Prober(ReturningPublisher):
    """Publishes one message at a time, and notes when each was confirmed."""

    answer_seconds = _ANSWER_SECONDS

    def __init__(self, address: Address, ledger: Ledger, seed: int, *more: Any) -> None:  # noqa: ANN401
        self._confirmed = threading.Condition()
        self._moments: list[float] = []
        super().__init__(address, ledger, seed, *more)

    def work(self, client: AmqpClient) -> None:
        """Publish, wait, and again."""
        client.open_channel(confirms=True)
        while True:
            message = self.ledger.send(self.number)
            client.send_raw(client.publish_octets(self.method, message.body, PERSISTENT))
            client.expect(Basic.Ack)
            with self._confirmed:
                self._moments.append(time.monotonic())
                self._confirmed.notify_all()
            self.ledger.confirm([message])

    def last_before(self, moment: float) -> float:
        """Return when the last message before a moment was confirmed."""
        with self._confirmed:
            return self._moments[bisect_left(self._moments, moment) - 1]

    def first_after(self, moment: float) -> float:
        """Return when the first message after a moment is confirmed; wait for that."""
        with self._confirmed:
            came = self._confirmed.wait_for(
                lambda: self._failure or (self._moments and self._moments[-1] > moment),
                HANG_SECONDS,
            )
            if self._failure is not None:
                raise self._failure
            assert came, "no message was confirmed any more"
            return self._moments[bisect_left(self._moments, moment)]

    def _run(self) -> None:
        super()._run()
        with self._confirmed:
            self._confirmed.notify_all()


class Settler(ReturningChurner):
    """A churner whose way to empty its queue is acknowledgements that a checkpoint has made sure.

    Args:
        checkpoint: Lets the broker write one, and returns when it is on the disk.
    """

    queue = "settled"

    def __init__(
        self,
        address: Address,
        ledger: Ledger,
        seed: int,
        churn: Churn,
        checkpoint: Callable[[], None],
    ) -> None:
        self._checkpoint = checkpoint
        super().__init__(address, ledger, seed, churn)

    def _empty(self, client: AmqpClient) -> None:
        churn = self.churn
        churn.asked_floor = churn.next_number
        client.open_channel(2)
        while (message := client.get(self.queue, no_ack=False, channel=2)) is not None:
            client.send(Basic.Ack(message.tag), 2)
        client.ready_count(self.queue, 2)
        self._checkpoint()
        # Of the broker that has the acknowledgements, if this one still answers.
        client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk, 2)
        churn.gone_floor = churn.next_number
        churn.rounds += 1
        churn.confirmed.clear()


class Keeper(Returning):
    """Publishes to queues that nobody takes anything from.

    Args:
        kept: What it notes in.
    """

    def __init__(self, address: Address, ledger: Ledger, seed: int, kept: Kept) -> None:
        self._kept = kept
        super().__init__(address, ledger, seed)

    def work(self, client: AmqpClient) -> None:
        """Publish to some of them, wait until all is confirmed, and again."""
        client.open_channel(confirms=True)
        while True:
            chosen = [self.chance.randrange(self._kept.queues) for _ in range(_BATCH)]
            self._kept.publish(client, chosen)


class Reader(Returning):
    """Reads a queue by offsets, from somewhat before where it was.

    Args:
        offsets: What it notes in.
        arguments: Of its consumer, beside the offset.
    """

    def __init__(
        self,
        address: Address,
        ledger: Ledger,
        seed: int,
        offsets: Offsets,
        arguments: Any,  # noqa: ANN401
    ) -> None:
        self._offsets = offsets
        self._arguments = arguments
        super().__init__(address, ledger, seed)

    def work(self, client: AmqpClient) -> None:
        """Read, and hold what comes against what came before."""
        client.open_channel()
        start = max(0, self._offsets.next_offset - self.chance.randrange(_READ_AGAIN_MAX))
        queue, session = self._offsets.queue, self.ledger.next_session()
        arguments = {**self._arguments, "x-stream-offset": start}
        client.consume(queue, prefetch=_PREFETCH, arguments=arguments)
        while True:
            message = client.expect_delivery()
            if self._offsets.is_new(offset_of(message), message.body) and self._offsets.is_stream:
                self.ledger.deliver(queue, message.body, redelivered=False, session=session)
            client.send(Basic.Ack(message.tag))
