"""Forwards messages from one queue to others; settles them here once they are safe there.

A message that is rejected or expired, or that exceeds a limit of its queue, goes to the dead-letter
exchange. A delayed message leaves its hidden queue when its delay is over. While it is forwarded, a
message is neither ready nor unacked. After a crash the broker forwards again what it had not
settled yet, marked redelivered; it loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Protocol

from amqp_server.broker.publishing.confirms import PublisherConfirms
from amqp_server.broker.publishing.enqueue import enqueue
from amqp_server.broker.queue_part import QueuePort
from amqp_server.broker.storing.window_reader import WindowReader, wake

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from amqp_server.broker.publishing.confirms import Barrier
    from amqp_server.broker.publishing.target_queue import TargetQueue
    from amqp_server.broker.routing.steps import Steps
    from amqp_server.broker.storing.message_store import MessageStore
    from amqp_server.broker.transfers.transfer_order import TransferOrder
    from amqp_server.broker.turn import Turn

logger = logging.getLogger("amqp_server.broker.transfers.forwarder")

UNDER_WAY_MAX = 8192
"""Most runs of messages that may wait for the disks of their target queues."""
STEP_MESSAGES = 64
"""Most messages of one queue that are forwarded in one step."""
STEP_COPIES = 256
"""About how many copies are made in one step: fewer messages, if each goes to many queues."""
STEP_BYTES = 8 * 1024
"""Bytes of messages for which queues are found in one step: headers take their time to decode."""
STEP_QUEUES = 64
"""Most queues that get messages in one step."""
RETRY_SECONDS = 1.0
"""Pause before the broker retries a message that no queue took."""


class Copy(NamedTuple):
    """The forwarded form of one message, and the queues that get it; there may be none."""

    queues: tuple[TargetQueue, ...]
    flags: int
    message: bytes


class ForwardingRule(Protocol):
    """Decides which queues a forwarded message goes to, and how it changes.

    Attributes:
        keeps_unroutable: Whether a message that no queue takes is kept and retried; otherwise
            it is dropped.
    """

    keeps_unroutable: bool

    def forward(self, message: bytes, reason: str) -> Steps[Copy]:
        """Return the steps to the copy of a message that is forwarded because of `reason`."""

    def forget(self) -> None:
        """Free what is remembered of the last messages, because no message waits."""


class ForwardingQueue(QueuePort, Protocol):
    """A queue whose messages are forwarded."""

    @property
    def store(self) -> MessageStore:
        """Where the messages are."""


class _Transfer(NamedTuple):
    """Messages `[start, end)` to forward; the queues in `taken_by` have them already."""

    start: int
    end: int
    reason: str
    taken_by: frozenset[TargetQueue] = frozenset()


class _UnderWay(NamedTuple):
    """Forwarded messages that wait for the disks of `queues`; `last_tag` is their confirm's tag."""

    last_tag: int
    transfer: _Transfer
    queues: Sequence[TargetQueue]


class Forwarder:
    """The messages that one queue forwards. Runs in the queue's turns.

    Args:
        queue: Queue that the messages leave.
        forwarding: Decides where they go.
        turn: Turn that runs the retries.
        order: Order of all forwarders of the server.

    Attributes:
        clock_seconds: See `Sender`.
        message_count: Messages that are being forwarded, or wait for a retry.
        is_retired: Whether the queue forwards nothing more, but what is forwarded already.
        awaits_rule: Whether all messages wait, because the rule that says where they go is not
            known.
    """

    def __init__(
        self,
        queue: ForwardingQueue,
        forwarding: ForwardingRule,
        turn: Turn,
        order: TransferOrder,
    ) -> None:
        self._queue = queue
        self._rule = forwarding
        self._turn = turn
        self._order = order
        self.task_queue = turn.transfers
        self.clock_seconds = 0.0
        self.message_count = 0
        self.is_retired = False
        self.awaits_rule = False
        self._waiting: deque[_Transfer] = deque()
        self._kept: deque[_Transfer] = deque()
        self._under_way: deque[_UnderWay] = deque()
        self._confirms = PublisherConfirms()
        self._stalled: set[TargetQueue] = set()
        self._reader: WindowReader | None = None
        # The first `_sweep_count` waiting transfers are in the order of the log.
        self._sweep_count = 0
        # How many queues the last message went to; before the first, one message makes a step.
        self._fan_out = STEP_COPIES + 1
        # How many copies were made of the messages that were sent last.
        self._copies_count = 0
        # The messages that are being put into their queues, and the steps that are left of it.
        self._sending: _Transfer | None = None
        self._steps: Steps[None] | None = None
        # Whether these steps look for the queues, and no queue has got a message yet.
        self._is_routing = False
        self._is_stopped = False
        self._settled_waiters: list[asyncio.Future[None]] = []
        self._sent_waiters: list[asyncio.Future[None]] = []

    @property
    def awaits_confirms(self) -> bool:
        """Whether messages wait for the disks of their target queues, or for room there."""
        return bool(self._under_way or self._stalled)

    def change_rule(self, forwarding: ForwardingRule) -> None:
        """Forward by another rule from now on, also messages that wait already."""
        self._rule = forwarding
        self.is_retired = False
        self.awaits_rule = False

    @property
    def is_idle(self) -> bool:
        """Whether no message is being forwarded or waits for a retry."""
        return not (self._steps is not None or self._waiting or self._kept or self._under_way)

    def add(self, start: int, end: int, reason: str) -> None:
        """Forward the messages `[start, end)`, which are neither ready nor unacked."""
        self.message_count += end - start
        last = self._waiting[-1] if self._waiting else None
        if last is not None and last == _Transfer(last.start, start, reason):
            # Messages that are rejected one by one are still forwarded together.
            self._waiting[-1] = last._replace(end=end)
        else:
            self._waiting.append(_Transfer(start, end, reason))
        self._queue.wake()

    def in_transit(self, reasons: Container[str]) -> list[tuple[int, int]]:
        """Return the ranges that are being forwarded for one of `reasons`, in no order."""
        return [
            (transfer.start, transfer.end)
            for transfer in self._transfers()
            if transfer.reason in reasons
        ]

    def has_messages_below(self, end: int) -> bool:
        """Return whether a message below `end` is being forwarded. O(transfers)."""
        return any(transfer.start < end for transfer in self._transfers())

    def _transfers(self) -> Iterator[_Transfer]:
        if self._sending is not None:
            yield self._sending
        yield from self._waiting
        yield from self._kept
        for each in self._under_way:
            yield each.transfer

    def lose(self, start: int, end: int) -> None:
        """Settle the waiting messages of `[start, end)`: the log no longer has them."""
        waiting, self._waiting = self._waiting, deque()
        self._sweep_count = 0
        for transfer in waiting:
            low, high = max(start, transfer.start), min(end, transfer.end)
            if low >= high:
                self._waiting.append(transfer)
                continue
            self._settle(low, high)
            for left, right in ((transfer.start, low), (high, transfer.end)):
                if left < right:
                    self._waiting.append(transfer._replace(start=left, end=right))
        self._queue.wake()

    def _settle(self, start: int, end: int) -> None:
        """Settle messages that need not be forwarded any more."""
        self.message_count -= end - start
        self._queue.settle(start, end)

    def run_turn(self) -> None:
        """Settle the messages that have become safe, and ask for a slice to forward others."""
        self._settle_safe()
        if self._is_busy and not self._is_stopped:
            self._order.ask(self)
        elif not self._is_busy:
            wake(self._sent_waiters)

    def send_some(self) -> None:
        """Forward messages until the slice is over.

        All forwarders of the server wait in one line: messages that circulate between many queues
        get the time of one client.
        """
        if not self._is_stopped:
            self._send_waiting()
        if not self._is_busy:
            wake(self._sent_waiters)

    def retry(self) -> None:
        """Retry the messages that no queue took."""
        self._waiting.extendleft(reversed(self._kept))
        self._sweep_count = 0
        self._kept.clear()

    def stop(self) -> None:
        """Stop forwarding; messages that are under way still arrive."""
        if self._steps is not None:
            self._end_steps(self._steps)
            self._steps = None
        self._is_stopped = True
        self._stalled.clear()
        self._end_reading()
        wake(self._sent_waiters)

    def _end_steps(self, steps: Steps[None]) -> None:
        """End what is being sent: all of its queues get it, or none."""
        if self._is_routing and self._sending is not None:
            steps.close()
            self._waiting.appendleft(self._sending)
            self._sending = None
        else:
            deque(steps, maxlen=0)

    async def until_settled(self) -> None:
        """Return when every message under way is settled here, or cannot arrive."""
        while self._under_way:
            waiter = asyncio.get_running_loop().create_future()
            self._settled_waiters.append(waiter)
            await waiter

    async def until_sent(self) -> None:
        """Return when no waiting message has to be read from the queue any more.

        Messages that wait for a retry, because no queue took them, do not count.
        """
        while self._is_busy and not self._is_stopped:
            waiter = asyncio.get_running_loop().create_future()
            self._sent_waiters.append(waiter)
            await waiter

    def refuse_confirms(self, queue: TargetQueue) -> None:
        """Retry the messages that are not safe in a queue whose log has failed."""
        refused = set(self._confirms.refuse(queue))
        self._under_way = deque(
            each._replace(queues=[one for one in each.queues if one is not queue])
            if each.last_tag in refused
            else each
            for each in self._under_way
        )

    def release_confirms(self) -> None:
        """Settle the messages that have become safe in their target queues.

        Wakes the queue if it can forward more now.
        """
        has_settled = self._settle_safe()
        if self.is_retired:
            # The queue discards a retired forwarder that has nothing left to do.
            self._queue.wake()
        if self._waiting and not self._is_stopped and (has_settled or self._has_room_again()):
            self._queue.wake()

    def _settle_safe(self) -> bool:
        """Settle the messages that have become safe; return whether there were any."""
        results = self._confirms.release()
        resolved: list[tuple[_UnderWay, bool]] = []
        for result in results:
            while self._under_way and self._under_way[0].last_tag <= result.last_tag:
                resolved.append((self._under_way.popleft(), result.refused))
        # Settling may make room in this queue, which notifies all that wait: this one too.
        for (_, transfer, queues), is_refused in resolved:
            if is_refused:
                self._keep(transfer, queues)
            elif not self._queue.is_deleted:
                self._settle(transfer.start, transfer.end)
        if not self._under_way:
            wake(self._settled_waiters)
        return bool(results)

    @property
    def is_sending(self) -> bool:
        """Whether messages are being sent in steps."""
        return self._steps is not None

    @property
    def _is_busy(self) -> bool:
        """Whether messages can be read and sent, or are being sent in steps."""
        return self._steps is not None or (bool(self._waiting) and not self.awaits_rule)

    def _has_room_again(self) -> bool:
        """Forget the full queues that have room; return whether all have. Each notifies us."""
        if not self._stalled:
            return False
        # Each notification looks at one queue that is still full, however many there are.
        while self._stalled:
            queue = next(iter(self._stalled))
            if queue.is_stalled:
                return False
            self._stalled.remove(queue)
        return True

    def _send_waiting(self) -> None:
        self._stalled = {queue for queue in self._stalled if queue.is_stalled}
        is_over = False
        copies_count = 0
        while not is_over and self._is_busy:
            if self._steps is not None:
                is_over = self._take_steps(self._steps)
                copies_count += self._copies_count
                # A few messages stay together, whatever time it is: if a log fails, they wait for
                # the retry together too, in their order.
                if copies_count < STEP_COPIES and self._steps is None:
                    is_over = False
                continue
            if self._stalled or len(self._under_way) >= UNDER_WAY_MAX:
                return
            transfer = self._waiting[0]
            room = min(STEP_MESSAGES, STEP_COPIES // self._fan_out + 1)
            messages = self._read(transfer.start, min(transfer.end, transfer.start + room))
            if not messages:
                if self._begin_sweep():
                    continue
                return
            end = transfer.start + len(messages)
            if end == transfer.end:
                self._waiting.popleft()
                self._sweep_count -= 1
            else:
                self._waiting[0] = transfer._replace(start=end)
            self._sending = transfer._replace(end=end)
            self._steps = self._send(self._sending, messages)
        if self._is_busy:
            self._order.ask(self)
        else:
            self._end_reading()

    def _take_steps(self, steps: Steps[None]) -> bool:
        """Go on with what is being sent; return whether the slice is over."""
        time_slice = self._turn.time_slice
        for _ in steps:
            if time_slice.is_over:
                return True
        self._steps = self._sending = None
        return time_slice.is_over

    def _begin_sweep(self) -> bool:
        """Sort the waiting transfers by offset, unless they are sorted; return whether it did.

        Otherwise messages that expire all over a long queue would be read one by one.
        """
        if self._sweep_count > 0 or len(self._waiting) == 1:
            return False
        self._waiting = deque(sorted(self._waiting))
        self._sweep_count = len(self._waiting)
        return True

    def _read(self, start: int, end: int) -> list[bytes]:
        if self._reader is None:
            self._reader = self._queue.store.window_reader()
        return self._queue.store.read(start, end, self._reader)

    def _end_reading(self) -> None:
        """Free what is remembered of messages that were read: nothing counts this memory."""
        self._rule.forget()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _send(self, transfer: _Transfer, messages: list[bytes]) -> Steps[None]:
        """Forward messages: each ends under way, kept or settled, even after an error (I8).

        A step puts them into some of their queues.
        """
        copies: list[Copy] = []
        read_bytes = 0
        try:
            self._is_routing = True
            for message in messages:
                copies.append((yield from self._rule.forward(message, transfer.reason)))
                read_bytes += len(message)
                if read_bytes >= STEP_BYTES:
                    read_bytes = 0
                    yield
        except Exception:
            self._is_routing = False
            if len(messages) == 1:
                logger.exception(
                    "message not forwarded queue=%s offset=%d", self._queue.name, transfer.start
                )
                self._keep(transfer, ())
                self._sending = self._rest_of(transfer)
                return
            # An error with one message must not stop the others.
            for at, message in enumerate(messages, transfer.start):
                yield from self._send(transfer._replace(start=at, end=at + 1), [message])
            return
        self._is_routing = False
        start = transfer.start
        self._copies_count = 0
        for (queues, flags), group in groupby(copies, key=_target_of):
            run = [copy.message for copy in group]
            part = transfer._replace(start=start, end=start + len(run))
            start = part.end
            owed = tuple(queue for queue in queues if queue not in transfer.taken_by)
            self._fan_out = max(len(queues), 1)
            self._copies_count += self._fan_out * len(run)
            if not queues:
                self._keep_or_drop(part)
                self._sending = self._rest_of(part)
            elif any(queue.refuses_when_full for queue in owed):
                for at, message in enumerate(run, part.start):
                    one = part._replace(start=at, end=at + 1)
                    yield from self._enqueue(one, owed, flags, [message])
            else:
                yield from self._enqueue(part, owed, flags, run)

    def _enqueue(
        self,
        transfer: _Transfer,
        queues: tuple[TargetQueue, ...],
        flags: int,
        messages: list[bytes],
    ) -> Iterator[None]:
        barriers: list[Barrier] = []
        refusing: list[TargetQueue] = []
        try:
            for at in range(0, len(queues), STEP_QUEUES):
                if at:
                    yield
                some, others = enqueue(queues[at : at + STEP_QUEUES], messages, flags)
                barriers += some
                refusing += others
        except Exception:
            # Some of the queues may have the messages: a duplicate is better than a loss.
            logger.exception(
                "forwarded messages not enqueued queue=%s offset=%d",
                self._queue.name,
                transfer.start,
            )
            self._keep(transfer, ())
            self._sending = self._rest_of(transfer)
            return
        if refusing and not self._rule.keeps_unroutable:
            # A full queue may refuse a message for good; a failed log must not lose it.
            refusing = [queue for queue in refusing if queue.is_failed]
        self._confirms.add(len(messages), barriers, refused=bool(refusing))
        took = [queue for queue in queues if queue not in refusing] if refusing else queues
        self._under_way.append(_UnderWay(self._confirms.last_tag, transfer, took))
        self._sending = self._rest_of(transfer)
        for barrier in barriers:
            barrier.queue.waiting_confirms.add(self)
        for queue in queues:
            if queue.is_stalled:
                self._stalled.add(queue)
                queue.waiting_confirms.add(self)
        if len(queues) > STEP_QUEUES:
            # The disk may have reported between two steps, when nothing waited for it.
            for queue in {barrier.queue for barrier in barriers if barrier.queue.is_failed}:
                self.refuse_confirms(queue)
            self._queue.wake()
            yield
        elif not barriers:
            self._queue.wake()

    def _rest_of(self, sent: _Transfer) -> _Transfer | None:
        """Return what is left to send behind a part that is under way, kept or settled."""
        if self._sending is None or sent.end >= self._sending.end:
            return None
        return self._sending._replace(start=sent.end)

    def _keep_or_drop(self, transfer: _Transfer) -> None:
        if self._rule.keeps_unroutable:
            self._keep(transfer, ())
        else:
            self._settle(transfer.start, transfer.end)

    def _keep(self, transfer: _Transfer, queues: Sequence[TargetQueue]) -> None:
        """Keep messages for a retry, without those of `queues` that have them safely."""
        if not self._kept:
            self._turn.mark_after(RETRY_SECONDS, _Retry(self, self._queue))
        safe = [queue for queue in queues if not queue.is_failed]
        self._kept.append(transfer._replace(taken_by=transfer.taken_by.union(safe)))


def _target_of(copy: Copy) -> tuple[tuple[TargetQueue, ...], int]:
    return copy.queues, copy.flags


class _Retry(NamedTuple):
    forwarder: Forwarder
    queue: ForwardingQueue

    def run_turn(self) -> None:
        self.forwarder.retry()
        self.queue.wake()
