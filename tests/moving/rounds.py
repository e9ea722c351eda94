"""The load, the moves one after the other, and what must be true at the end."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient, connect
from tests.conformance.streams import offset_of
from tests.crash import transactions
from tests.crash.churner import Churn
from tests.crash.ledger import Ledger
from tests.limits import HANG_SECONDS
from tests.moving.clients import (
    Keeper,
    Prober,
    Reader,
    Returning,
    ReturningChurner,
    ReturningConsumer,
    ReturningMover,
    ReturningPublisher,
    ReturningTransactions,
    Settler,
)
from tests.moving.kept import Kept
from tests.moving.machines import SERVICE_ADDRESS, Network
from tests.moving.mover import PORT, WITNESSED, Death, Move, Mover
from tests.moving.offsets import Offsets
from tests.moving.volume import Volume

_ADDRESS: Final = (SERVICE_ADDRESS, PORT)
_EXCHANGE: Final = "everywhere"
_STREAM: Final = "stream"
_BROWSED: Final = "browsed"
_QUEUES: Final[dict[str, dict[str, object]]] = {
    "shared": {},
    "quorum": {"x-queue-type": "quorum"},
    "ranked": {"x-max-priority": 3},
    _BROWSED: {"x-retain-bytes": 1_000_000},
}
"""That consumers take from; everything that is published goes to each of them and to the stream."""
_OPTIONS: Final = ("--offset-checkpoint-interval", "200ms", "--segment-bytes", "4MiB")
_CONFIRMS_MAX: Final = 1000
_DEATH_IN_START_SHARE: Final = 0.2
_DEATH_IN_START_SECONDS: Final = (0.05, 0.8)
_LOOK_SECONDS: Final = 0.01
_PREFETCH: Final = 1000


class Rounds:
    """A volume that moves between two machines under load.

    Args:
        directory: For images and logs; on the disk whose speed is wanted.
        kept: Queues that nobody takes anything from, and what is in them at first.
        bytes_needed: For what is in them.
        seed: Of all chances.

    Attributes:
        moves: Those that are done.
    """

    def __init__(self, directory: Path, kept: Kept, bytes_needed: int, seed: int) -> None:
        self._directory = directory
        self._kept = kept
        self._bytes_needed = bytes_needed
        self._chance = random.Random(seed)
        self._ledger = Ledger((*_QUEUES, _STREAM))
        self._transactions = Ledger(transactions.QUEUES)
        self._sent: list[transactions.Sent] = []
        self._churn, self._settled = Churn(), Churn()
        self._stream = Offsets(_STREAM, is_stream=True)
        self._browsed = Offsets(_BROWSED, is_stream=False)
        self.moves: list[Move] = []

    def run(self, rounds: int) -> None:
        """Do all of it.

        Raises:
            AssertionError: A promise was broken, or nothing went on.
        """
        volume = Volume(self._directory, self._bytes_needed)
        with Mover(Network(), self._directory, volume, *_OPTIONS) as mover:
            self._declare()
            workers, prober = self._workers(mover)
            try:
                for number, death in enumerate(self._deaths(rounds), 1):
                    self._let_work(workers)
                    twice = self._chance.random() < _DEATH_IN_START_SHARE
                    second = self._chance.uniform(*_DEATH_IN_START_SECONDS) if twice else None
                    say(f"round {number}: machine {mover.machine.number} is {death.value}")
                    here = {worker: worker.connections for worker in workers}
                    await_clients = partial(self._await_clients, here)
                    self.moves.append(mover.move(death, prober, await_clients, second))
                    say(f"round {number}: {describe(self.moves[-1])}")
                self._let_work(workers)
            finally:
                for worker in workers:
                    worker.end()
                # The end of their connections.
                mover.restart()
            for worker in workers:
                worker.join()
            self._check(mover)

    def _deaths(self, rounds: int) -> list[Death]:
        """Return as many deaths, each kind as often as the others, in any order."""
        kinds = list(Death)
        deaths: list[Death] = []
        while len(deaths) < rounds:
            self._chance.shuffle(kinds)
            deaths += kinds
        return deaths[:rounds]

    def _declare(self) -> None:
        with await_broker() as client:
            client.open_channel(confirms=True)
            fanout = Exchange.Declare(exchange=_EXCHANGE, exchange_type="fanout", durable=True)
            client.call(fanout, Exchange.DeclareOk)
            for queue, arguments in {**_QUEUES, _STREAM: {"x-queue-type": "stream"}}.items():
                client.declare(queue, arguments=arguments)
                bind = Queue.Bind(queue=queue, exchange=_EXCHANGE, routing_key="")
                client.call(bind, Queue.BindOk)
            client.declare(WITNESSED)
            began = time.monotonic()
            self._kept.fill(client)
            say(f"filled in {time.monotonic() - began:.1f} s")
        transactions.declare(_ADDRESS)

    def _workers(self, mover: Mover) -> tuple[list[Returning], Prober]:
        seeds = iter(lambda: self._chance.randrange(1 << 30), -1)
        of, moved = (_ADDRESS, self._ledger), (_ADDRESS, self._transactions)
        prober = Prober(*of, next(seeds), 0, _EXCHANGE)
        workers: list[Returning] = [
            prober,
            *(ReturningPublisher(*of, next(seeds), n, _EXCHANGE) for n in (1, 2)),
            *(ReturningConsumer(*of, next(seeds), queue) for queue in _QUEUES),
            Reader(*of, next(seeds), self._stream, {}),
            Reader(*of, next(seeds), self._browsed, {"x-browse": True}),
            *(ReturningTransactions(*moved, next(seeds), n, self._sent) for n in (0, 1)),
            ReturningMover(*moved, next(seeds)),
            ReturningChurner(*of, next(seeds), self._churn),
            Settler(*of, next(seeds), self._settled, mover.checkpoint),
            Keeper(*of, next(seeds), self._kept),
        ]
        return workers, prober

    def _let_work(self, workers: list[Returning]) -> None:
        """Return at a random moment after everyone has done something since the last move."""
        wanted = [count + 1 for count in self._progress()]
        wanted[0] += self._chance.randrange(_CONFIRMS_MAX)
        self._await(workers, lambda: all(map(int.__ge__, self._progress(), wanted)))
        time.sleep(self._chance.uniform(0, 2 * _LOOK_SECONDS))

    def _await_clients(self, before: dict[Returning, int]) -> None:
        """Return when all have connected since they had as many connections."""
        self._await(list(before), lambda: all(w.connections > n for w, n in before.items()))

    def _await(self, workers: list[Returning], is_true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while not is_true():
            for worker in workers:
                if worker.failure is not None:
                    raise worker.failure
            assert time.monotonic() < deadline, f"nothing goes on: {self._progress()}"
            time.sleep(_LOOK_SECONDS)

    def _progress(self) -> list[int]:
        return [
            self._ledger.confirmed_count,
            self._transactions.confirmed_count,
            self._churn.checks,
            self._settled.checks,
            self._settled.rounds,
            len(self._stream),
            len(self._browsed),
        ]

    def _check(self, mover: Mover) -> None:
        with await_broker() as client:
            client.open_channel()
            self._read_stream(client)
            for queue in (*_QUEUES, _STREAM):
                if queue != _STREAM:
                    self._drain(client, queue)
                verdict = self._ledger.check(queue)
                say(f"{queue}: {verdict}")
                assert verdict.is_good, f"{queue}: {verdict}"
            say(f"kept queues: {self._kept.check(client)} confirmed, all there, once, in order")
        found: dict[str, Counter[bytes]] = {
            queue: transactions.take_all(_ADDRESS, queue)
            for queue in (transactions.SOURCE, *transactions.QUEUES)
        }
        found[transactions.MOVED] += found.pop(transactions.SOURCE)
        transactions.check(found, self._sent)
        committed = sum(each.is_committed for each in self._sent)
        say(f"transactions: {committed} of {len(self._sent)} committed, each whole or not there")
        say(f"purges and deletions: {self._churn.rounds}; settled for good: {self._settled.rounds}")
        say(f"offsets: {len(self._stream)} of a stream, {len(self._browsed)} of a queue")
        mover.stop()

    def _read_stream(self, client: AmqpClient) -> None:
        """Read all of the stream once more, from its first message."""
        client.open_channel(2)
        count, session = client.ready_count(_STREAM, 2), self._ledger.next_session()
        arguments = {"x-stream-offset": "first"}
        client.consume(_STREAM, prefetch=_PREFETCH, arguments=arguments, channel=2)
        for offset in range(count):
            message = client.expect_delivery(2)
            client.send(Basic.Ack(message.tag), 2)
            assert offset_of(message) == offset, f"{_STREAM}: {offset} was left out"
            if self._stream.is_new(offset, message.body):
                self._ledger.deliver(_STREAM, message.body, redelivered=False, session=session)
        assert count >= len(self._stream), "messages of the stream were seen, and are gone"

    def _drain(self, client: AmqpClient, queue: str) -> None:
        count, session = client.ready_count(queue), self._ledger.next_session()
        client.consume(queue, no_ack=True)
        for _ in range(count):
            message = client.expect_delivery()
            self._ledger.deliver(
                queue, message.body, redelivered=message.redelivered, session=session
            )


def await_broker() -> AmqpClient:
    """Return a client of the service when its broker listens."""
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        try:
            return connect(_ADDRESS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_SECONDS)


def describe(move: Move) -> str:
    """Return a move in one line."""
    return (
        f"{move.death.value}: outage {move.outage:.2f} s: detach {move.detach:.2f}, "
        f"mount {move.mount:.2f}, start {move.start:.2f}"
        + (", with a power cut in the start" if move.has_died_twice else "")
    )


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)
