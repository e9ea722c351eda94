"""What the clients of a server do while its disk fails.

Each step continues whatever the disk does, and records what the client learned.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pamqp.commands import Basic, Channel, Exchange, Queue, Tx

from amqp_server.base.errors import StartupError
from amqp_server.broker.queue import Queue as BrokerQueue
from appendlog.reclaim.leases import HeldLease
from offsets.errors import OffsetsError
from tests.amqp_client import PERSISTENT
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.faults.history import NEVER, History, Life, Placed, Span, Together
from tests.faults.inline_server import InlineClient, InlineServer

CONFIRMS = 2
TRANSACTIONS = 3
TRANSIENT = Basic.Properties(delivery_mode=1)
EXPIRING = Basic.Properties(delivery_mode=2, expiration="60000")
MESSAGE_BYTES = 300
RETRIES = 4
RETRY_SECONDS = 2.0
"""Longer than a log that was full, and a letter that was refused, wait for the next try."""


@dataclass(slots=True)
class Held:
    """A delivery that is not answered yet."""

    tag: int
    placed: Placed


@dataclass
class Scenario:
    """The clients of one server, and their history.

    Args:
        storage_path: Data directory.
        filesystem: Of the server; its operations are the clock.
        seed: Of the server's loop.
        settings: Of the server.

    Attributes:
        reclaimed: By queue: how many segments were rewritten; if none, bytes of removed ones.
    """

    storage_path: Path
    filesystem: FaultyFileSystem
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    history: History = field(default_factory=History)
    server: InlineServer = field(init=False)
    client: InlineClient = field(init=False)
    held: dict[int, Held] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    reclaimed: Counter[str] = field(default_factory=Counter)
    _number: int = 0
    _on_their_way: list[Placed] = field(default_factory=list)

    def now(self) -> int:
        """Return the number of operations so far."""
        return len(self.filesystem.operations)

    # The server

    def start(self) -> bool:
        """Start the server; return False if it cannot."""
        self.server = InlineServer(self.storage_path, self.filesystem, self.seed, **self.settings)
        try:
            self.server.__enter__()
        except StartupError:
            return False
        if self.history.clean:
            # The first round after the start said that this is no clean stop any more.
            self.history.clean[-1] = (self.history.clean[-1][0], self.now())
        # What could not be recovered is missed until the next start: nothing gets there.
        self.absent = set(self.server.server.broker.vhosts["/"].damaged.queues)
        self._connect()
        return True

    def stop(self) -> bool:
        """Stop the server; return whether it was a clean stop."""
        self.held.clear()
        self._note_arrivals()
        self._on_their_way.clear()
        begun = self.now()
        is_clean = self.server.stop()
        if not is_clean:
            self.history.note_crash(self.now())
        else:
            self.history.settle_durably(begun, self.now())
            self.history.clean.append((begun, NEVER))
        return is_clean

    def checkpoint(self) -> None:
        """Let a round of checkpoints be written."""
        begun = self.now()
        try:
            self.server.checkpoint()
        except OffsetsError:
            return
        self.history.settle_durably(begun, self.now())

    def checkpoint_during_publishes(self, count: int, *queues: str) -> None:
        """Let a round of checkpoints be written while messages are published."""
        begun = self.now()
        writing = self.server.begin_checkpoint()
        self.publish(count, *queues)
        if writing.done() and writing.exception() is None:
            self.history.settle_durably(begun, self.now())

    def note_offsets(self) -> None:
        """Write down which records were published as durable under which offsets."""
        for queue in self.server.server.broker.queues():
            known = self.history.offsets.setdefault(str(queue.incarnation), {})
            log = queue.store.log
            start = max(known, default=-1) + 1
            if start >= log.recovery_point or log.failed:
                continue
            result = log.read(start, 1 << 30, 1 << 20)
            for offset, message in zip(result.offsets, result.messages, strict=True):
                if offset < log.recovery_point:
                    known[offset] = (self.now(), bytes(message))

    def force(self, name: str, age_seconds: float) -> None:
        """Let retention remove all old messages of a queue by force: two rounds of checkpoints."""
        life = self.history.live(name)
        if life is not None:
            self._end(life.placed)
        self.server.loop.pass_time(age_seconds + 1)
        self.checkpoint()
        self.checkpoint()

    def lease(self, name: str) -> HeldLease | None:
        """Read a queue in another process, which asks for its segments to stay."""
        queue = self._queue(name)
        if queue is None:
            return None
        try:
            return HeldLease.take(
                self.storage_path, "/", name, queue.incarnation, 0, self.filesystem
            )
        except OSError:
            return None

    def note_reclaimed(self, *names: str) -> None:
        """Record how many segments were rewritten since the start, or how much was removed."""
        for name in names:
            queue = self._queue(name)
            if queue is not None:
                reclaim = queue.store.log.reclaim
                self.reclaimed[name] = reclaim.compacted_segments or reclaim.retention_bytes

    # Definitions

    def declare(self, name: str, **arguments: Any) -> None:  # noqa: ANN401 - a table of any values
        """Declare a durable queue, unless it is there."""
        if any(life.gone == NEVER and not life.is_unsure for life in self.history.named(name)):
            return
        life = Life(name=name, begun=self.now())
        self.history.lives.append(life)
        declare: Any = Queue.Declare(queue=name, durable=True, arguments=arguments)
        if isinstance(self.client.call(declare), Queue.DeclareOk):
            life.sure = self.client.answered_at
        else:
            life.is_unsure = True
        self._tidy()

    def declare_exchange(self, name: str) -> None:
        """Declare a durable exchange that goes by the key."""
        self.client.call(Exchange.Declare(exchange=name, exchange_type="direct", durable=True))
        self._tidy()

    def bind(self, exchange: str, key: str, queue: str) -> None:
        """Bind a queue."""
        span = self.history.bindings.setdefault((exchange, key, queue), Span(begun=self.now()))
        answer = self.client.call(Queue.Bind(queue=queue, exchange=exchange, routing_key=key))
        if isinstance(answer, Queue.BindOk):
            span.sure = self.client.answered_at
        self._tidy()

    def delete(self, name: str) -> None:
        """Delete a queue."""
        life = self.history.live(name)
        if life is None:
            return
        self._end([life, *life.placed])
        answer = self.client.call(Queue.Delete(queue=name))
        if isinstance(answer, Queue.DeleteOk):
            for span in (life, *life.placed):
                span.gone = min(span.gone, self.client.answered_at)
        else:
            life.is_unsure = True
        self._tidy()

    def purge(self, name: str) -> None:
        """Purge a queue of which nothing is held."""
        life = self.history.live(name)
        if life is None:
            return
        held = [held.placed for held in self.held.values()]
        purged = [placed for placed in life.placed if placed not in held]
        self._end(purged)
        answer = self.client.call(Queue.Purge(queue=name))
        if isinstance(answer, Queue.PurgeOk):
            for placed in purged:
                placed.settling = self.now()
                if placed.sure != NEVER:
                    placed.gone = min(placed.gone, self.client.answered_at)
        self._tidy()

    # Messages

    def publish(
        self,
        count: int,
        *queues: str,
        exchange: str = "",
        properties: Basic.Properties = PERSISTENT,
    ) -> list[Placed]:
        """Publish messages to queues in turn, and let the server work; return them.

        Args:
            count: How many.
            queues: Their names, or the keys that they are bound with.
            exchange: Through which.
            properties: Of the messages.
        """
        sent: dict[int, Placed] = {}
        for number in range(count):
            placed = self._new(properties.delivery_mode == 2)
            key = queues[number % len(queues)]
            tag = self.client.publish(placed.body, key, exchange, properties, CONFIRMS)
            sent[tag] = placed
            if not exchange or self.history.is_bound(exchange, key, key):
                self._place(placed, key)
            self.server.loop.run_some_turns()
        self.server.settle()
        for tag, placed in sent.items():
            placed.sure = self.client.confirmed_at.get(tag, NEVER)
        self._tidy()
        return list(sent.values())

    def get(self, name: str, count: int) -> list[Held]:
        """Take messages; they are held until they are answered."""
        taken: list[Held] = []
        while len(taken) < count and (got := self.client.get(name)) is not None:
            tag, _, body = got
            life = self.history.live(name)
            assert life is not None, f"something comes from the deleted queue {name}"
            (placed,) = (each for each in life.placed if each.body == body)
            placed.delivered = min(placed.delivered, self.now())
            self.held[tag] = Held(tag, placed)
            taken.append(self.held[tag])
        self._tidy()
        return taken

    def ack(self, taken: list[Held]) -> None:
        """Acknowledge, in this order, and let the server work."""
        taken = self._answerable(taken)
        self._end([held.placed for held in taken])
        self.client.send(*(Basic.Ack(held.tag) for held in taken))
        self.server.settle()
        self._note_settling([held.placed for held in taken])
        self._tidy()

    def requeue(self, taken: list[Held]) -> None:
        """Give back."""
        taken = self._answerable(taken)
        self.client.send(*(Basic.Nack(held.tag, requeue=True) for held in taken))
        self.server.settle()
        self._tidy()

    def reject(self, taken: list[Held], dead_letters: str) -> None:
        """Reject, which makes dead letters."""
        taken = self._answerable(taken)
        copies = self._move([held.placed for held in taken], dead_letters)
        self.client.send(*(Basic.Reject(held.tag, requeue=False) for held in taken))
        self.server.settle()
        self._note_settling([held.placed for held in taken])
        self._arrive(copies)

    def expire(self, placed: list[Placed], dead_letters: str) -> None:
        """Let messages expire."""
        copies = self._move(placed, dead_letters)
        self.server.loop.pass_time(61)
        self.server.loop.call_soon(self._wake_queues)
        self.server.settle()
        self._note_settling(placed)
        self._arrive(copies)

    def commit(self, source: str, *targets: str, count: int = 4) -> None:
        """Take a message from one queue, and publish to others, in one transaction."""
        client = self.client
        client.open_channel(TRANSACTIONS)
        client.call(Tx.Select(), TRANSACTIONS)
        going: list[Placed] = []
        client.send(Basic.Get(queue=source), channel=TRANSACTIONS)
        self.server.settle()
        if client.received and isinstance(client.received[0][1], Basic.GetOk):
            tag = client.take(Basic.GetOk).delivery_tag
            client.received.popleft()
            body = client.received.popleft()[1]
            life = self.history.live(source)
            assert life is not None
            going = [each for each in life.placed if each.body == getattr(body, "value", None)]
            going[0].delivered = min(going[0].delivered, self.now())
            client.send(Basic.Ack(tag), channel=TRANSACTIONS)
        client.received.clear()
        coming = [self._new(True) for _ in range(count)]
        for number, placed in enumerate(coming):
            key = targets[number % len(targets)]
            client.publish(placed.body, key, channel=TRANSACTIONS)
            client.published -= 1
            self._place(placed, key)
        self._end(going)
        coming = [placed for placed in coming if placed.queue]
        going = [placed for placed in going if placed.sure != NEVER and placed.is_persistent]
        self.history.transactions.append(Together(coming, going, self.now()))
        answer = client.call(Tx.Commit(), TRANSACTIONS)
        if isinstance(answer, Tx.CommitOk):
            for placed in coming:
                placed.sure = client.answered_at
            for placed in going:
                placed.gone = min(placed.gone, client.answered_at)
            client.call(Channel.Close(200, "", 0, 0), TRANSACTIONS)
        self._tidy()

    # Within

    def _connect(self) -> None:
        self.held.clear()
        self.client = self.server.connect()
        self.client.clock = self.now
        self.client.open_channel(CONFIRMS, confirms=True)

    def _tidy(self) -> None:
        """After what the disk refused, begin again with a new connection."""
        if self.client.closed is not None:
            self.client.hang_up()
            self.server.settle()
            self._connect()
        self.client.received.clear()

    def _new(self, is_persistent: bool) -> Placed:
        self._number += 1
        body = b"%d " % self._number
        return Placed(
            begun=self.now(),
            body=body.ljust(MESSAGE_BYTES + self._number * 37 % 100, b"."),
            is_persistent=is_persistent,
        )

    def _place(self, placed: Placed, queue: str) -> None:
        life = self.history.live(queue)
        if life is not None and queue not in self.absent:
            life.placed.append(placed)
            placed.queue = queue

    def _end(self, spans: list[Placed] | list[Span]) -> None:
        for span in spans:
            span.ending = min(span.ending, self.now())
            if isinstance(span, Placed):
                if span.dropped != NEVER:
                    span.dropped_again = min(span.dropped_again, self.now())
                span.dropped = min(span.dropped, self.now())

    def _answerable(self, taken: list[Held]) -> list[Held]:
        """Return what can still be answered: a channel that was closed has requeued all."""
        return [held for held in taken if self.held.pop(held.tag, None) is held]

    def _move(self, leaving: list[Placed], dead_letters: str) -> list[Placed]:
        copies = []
        leaving = [placed for placed in leaving if placed.queue]
        for placed in leaving:
            copy = Placed(begun=self.now(), body=placed.body)
            self._place(copy, dead_letters)
            if copy.queue:
                placed.waits_for = copy
                is_there = placed.sure != NEVER and not self.history.is_unsure(placed.queue)
                copies += [copy] if is_there else []
            placed.ending = min(placed.ending, self.now())
        return copies

    def _note_settling(self, spans: list[Placed]) -> None:
        if self.client.closed is None:
            for placed in spans:
                placed.settling = self.now()

    def _arrive(self, copies: list[Placed]) -> None:
        self._on_their_way += copies
        self._note_arrivals()
        self._tidy()

    def _note_arrivals(self) -> None:
        """Note that letters have arrived: at once, or behind a fault when they were tried again."""
        fail_at = self.filesystem.fail_at
        if self._on_their_way and fail_at is not None and self.now() > fail_at:
            for copy in self._on_their_way:
                copy.is_late = True
            for _ in range(RETRIES):
                self.server.loop.pass_time(RETRY_SECONDS)
                self.server.loop.call_soon(self._wake_queues)
                self.server.settle()
        if not any(queue.store.is_failed for queue in self.server.server.broker.queues()):
            for copy in self._on_their_way:
                copy.sure = self.now()
            self._on_their_way.clear()

    def _queue(self, name: str) -> BrokerQueue | None:
        return self.server.server.broker.vhosts["/"].queues.get(name)

    def _wake_queues(self) -> None:
        for queue in self.server.server.broker.queues():
            queue.wake()
