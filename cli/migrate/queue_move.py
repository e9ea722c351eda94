"""Moves the messages of one queue: takes them at the source, puts them here, then acks there.

A message is acked at the source when it is on the disk here. So a crash of anything at any moment
loses nothing, and what was not acked, at most the window, may come twice. One consumer takes the
messages, so they keep their order.

A stream is not drained: its messages are copied, and this server's record of the import
(`amqp_server/admin/imports/import_state.py`) knows the place, so each comes once.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from amqp_server.admin.imports.batch_file import BATCH_BYTES
from amqp_server.control.client import ControlError, UnreachableError
from amqp_server.control.protocol import ErrorKind
from amqp_server.protocol.field_values import FieldValue
from amqp_server.shovel.link.errors import LinkClosed
from appendlog.layout.message import PERSISTENT
from cli.migrate.message_form import DELIVERY_COUNT, STREAM_OFFSET, message_of, stream_offset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from amqp_server.control.import_client import ImportWork
    from amqp_server.protocol.tables import Table
    from amqp_server.shovel.link.channel import LinkChannel
    from amqp_server.shovel.link.deliveries import Delivery
    from cli.migrate.pool import SourcePool
    from cli.migrate.target import Target

_T = TypeVar("_T")

BATCHES_PER_WINDOW: Final = 4
"""The source sends into one part of the window while another is put to the disk here."""
QUIET_SECONDS: Final = 0.5
"""A turn ends when nothing has come for so long."""
RETRY_SECONDS: Final = 1.0
"""Pause before messages are offered again that this server did not take."""
_NUMBERS_SKIPPED: Final = 1 << 16
"""More than a batch has messages: a new batch never has the number of one that was cut short."""


class State(StrEnum):
    """State of a queue's move."""

    WAITING = "waiting"
    MOVING = "moving"
    EMPTY = "empty"
    COPIED = "copied"
    FULL = "full here"
    HELD = "held at the source"
    GONE = "gone at the source"
    AWAY = "source is away"
    REFUSED = "refused here"


@dataclass(frozen=True, slots=True)
class Means:
    """Parts that all moves share.

    Attributes:
        pool: Connections to the source.
        target: This server.
        executor: Threads for requests to this server.
        slots: Lets a bounded number of moves work at the same time.
        window: Most messages of a queue that are taken and not acked.
        identity: Names the source; the same for every run.
        stop: Set when the moves have to end.
        say: Is called with lines for people.
    """

    pool: SourcePool
    target: Target
    executor: Executor
    slots: asyncio.Semaphore
    window: int
    identity: str
    stop: asyncio.Event
    say: Callable[[str], None]


class StoppedError(Exception):
    """The moves have to end, and this one cannot finish what it has taken."""


class RefusedError(Exception):
    """This server has no such queue, or it cannot take messages; the text is one line."""


@dataclass(slots=True)
class _Batch:
    """Messages with their places at the source, or consecutive numbers."""

    messages: list[bytes]
    places: Sequence[int]


@dataclass(slots=True)
class QueueMove:
    """The move of one queue.

    Attributes:
        vhost: Virtual host of the queue.
        name: Its name.
        entry: Its entry in the definitions of the source.
        kind: Type of the queue at the source.
        state: What is done with it.
        note: Why, for some states; for people.
        left: Ready messages at the source when it was last asked; of a stream what is not copied;
            None: not asked yet.
        moved: Messages that are here, by this run.
        moved_bytes: Octets of them, with properties.
        seconds: How long turns have worked on them, without the pauses at their ends.
        is_busy: Whether a turn is at work.
        next_turn: When another turn may begin, by the clock of the loop.
    """

    vhost: str
    name: str
    entry: dict[str, Any]
    kind: str
    state: State = State.WAITING
    note: str = ""
    left: int | None = None
    moved: int = 0
    moved_bytes: int = 0
    seconds: float = 0.0
    is_busy: bool = False
    next_turn: float = 0.0
    counted: int | None = None
    _work: ImportWork | None = None
    _next: int = 0
    _skip: int = 0

    @property
    def is_stream(self) -> bool:
        """Whether it is copied instead of drained."""
        return self.kind == "stream"

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do now, as far as is known.

        A copied stream is looked at again and again, because its count does not tell what is new:
        it stays copied until such a turn brings something.
        """
        if self.is_busy and not self.is_stream:
            return False
        return self.state in (State.EMPTY, State.COPIED, State.GONE)

    async def turn(self, means: Means, count: int) -> None:
        """Move as many messages as the source has now, or until nothing comes.

        Args:
            means: What the moves share.
            count: Ready messages at the source; of a stream it does not matter.

        Raises:
            LinkError: The source has gone, or refuses.
            AmqpError: The source has sent a malformed message.
            RefusedError: This server cannot take them.
            StoppedError: The moves have to end, and this server does not take what was taken.
        """
        async with means.slots:
            if means.stop.is_set():
                return
            work = self._work
            if work is None:
                work = await self._begin(means)
                self._continue_after(work)
            async with means.pool.connection(self.vhost) as connection:
                channel = await connection.open_channel()
                await channel.set_prefetch(means.window)
                if self.state is not State.COPIED:
                    self.state, self.note = State.MOVING, ""
                began = time.monotonic()
                deliveries = await channel.consume(self.name, self._place(work))
                taken = 0
                while not means.stop.is_set() and (self.is_stream or taken < count):
                    try:
                        async with asyncio.timeout(QUIET_SECONDS):
                            some = await deliveries.next_batch()
                    except TimeoutError:
                        break
                    self.state, self.note = State.MOVING, ""
                    taken += len(some)
                    await self._put_all(means, channel, some)
                    now = time.monotonic()
                    began, self.seconds = now, self.seconds + now - began
                await self._put_all(means, channel, await channel.finish(deliveries))
                await channel.close()

    async def end(self, means: Means) -> None:
        """Tell this server that nothing more comes; what fails now has no effect."""
        if self._work is not None:
            work, self._work = self._work, None
            try:
                await _in_thread(means, partial(work.__exit__, None, None, None))
            except (ControlError, UnreachableError, OSError):
                return

    def _place(self, work: ImportWork) -> Table | None:
        """Return the consumer's arguments: a stream goes on where its copy ends."""
        if not self.is_stream:
            return None
        if not work.progress.ranges and not work.progress.partial:
            return {STREAM_OFFSET: FieldValue(b"S", b"first")}
        return {STREAM_OFFSET: FieldValue(b"l", self._next)}

    async def _begin(self, means: Means) -> ImportWork:
        """Begin to put messages here; wait while this server is away.

        Raises:
            RefusedError: It has no such queue, or the queue cannot take messages.
        """
        source = f"migrate {means.identity}\0{self.vhost}\0{self.name}"
        begin = partial(means.target.begin, self.vhost, self.name, source)
        while True:
            try:
                self._work = work = await _in_thread(means, begin)
            except UnreachableError:
                await self._pause(means, State.WAITING, "this server is away")
            except ControlError as error:
                missing = error.kind is ErrorKind.NOT_FOUND
                reason = "no such queue here: run the command again" if missing else error.reason
                raise RefusedError(reason) from error
            else:
                return work

    def _continue_after(self, work: ImportWork) -> None:
        """Find the number or place of the next message, after what earlier runs have put here."""
        progress = work.progress
        ends = max((end for _, end in progress.ranges), default=0)
        cut = [start for start in progress.partial if start >= ends]
        if self.is_stream:
            self._next = max(cut, default=ends)
            self._skip = progress.partial[self._next] if cut else 0
        else:
            self._next = max((start + _NUMBERS_SKIPPED for start in cut), default=ends)

    async def _put_all(
        self, means: Means, channel: LinkChannel, deliveries: Sequence[Delivery]
    ) -> None:
        for part in _parts(deliveries, max(means.window // BATCHES_PER_WINDOW, 1)):
            batch = self._batch(part)
            if batch.messages:
                await self._put(means, channel, batch, part)
            channel.ack(part[-1].tag, multiple=True)
            # A connection without a reader must not keep the loop from others.
            await asyncio.sleep(0)

    def _batch(self, deliveries: Sequence[Delivery]) -> _Batch:
        if not self.is_stream:
            without = DELIVERY_COUNT if self.kind == "quorum" else ""
            messages = [
                message_of(each, without if each.is_redelivered else "") for each in deliveries
            ]
            return _Batch(messages, range(self._next, self._next + len(messages)))
        places: list[int] = []
        batch = _Batch([], places)
        for each in deliveries:
            place = stream_offset(each)
            if place is None:
                raise LinkClosed(0, f"stream '{self.name}' sends messages without their offsets")
            if place < (places[-1] + 1 if places else self._next):
                continue
            if self._skip:
                self._skip -= 1
                self._next = place + 1
                continue
            batch.messages.append(message_of(each, STREAM_OFFSET))
            places.append(place)
        return batch

    async def _put(
        self, means: Means, channel: LinkChannel, batch: _Batch, part: Sequence[Delivery]
    ) -> None:
        """Put a batch to the disk of this server, however long that takes.

        Raises:
            LinkClosed: The source has gone since: it will send these messages again.
            RefusedError: The queue has gone here.
            StoppedError: The moves have to end.
        """
        while batch.messages:
            channel.check_open()
            work = self._work
            if work is None:
                work = await self._begin(means)
                self._take(batch, self._known(work, batch))
                continue
            start, end = batch.places[0], batch.places[-1] + 1
            append = partial(work.append, batch.messages, start, end)
            try:
                await _in_thread(means, append)
            except UnreachableError:
                self._work = None
                await self._pause(means, State.WAITING, "this server is away")
            except OSError as error:
                await self._pause(means, State.REFUSED, f"{error.strerror or error}")
            except ControlError as error:
                taken = error.details.get("taken")
                if type(taken) is int:
                    self._take(batch, taken)
                    self._ack_but(channel, part, len(batch.messages))
                    await self._pause(means, State.FULL, "its length is limited", gives_way=True)
                    continue
                self._work = None
                if error.kind is not ErrorKind.IN_USE:
                    await self._pause(means, State.REFUSED, error.reason, gives_way=True)
            else:
                self.state, self.note = State.MOVING, ""
                self._take(batch, len(batch.messages))

    def _ack_but(self, channel: LinkChannel, part: Sequence[Delivery], left: int) -> None:
        """Ack the deliveries of a part but for its last ones."""
        if left < len(part) and not self.is_stream:
            channel.ack(part[-1 - left].tag, multiple=True)

    def _known(self, work: ImportWork, batch: _Batch) -> int:
        """Return how many messages of a batch this server had got when it was killed.

        Of an ordinary queue it counts the persistent messages only. If there are others too, the
        whole batch comes again.
        """
        start = batch.places[0]
        for low, high in work.progress.ranges:
            if low <= start < high:
                # Of a batch for which the queue had no room it may have a part.
                return sum(place < high for place in batch.places)
        if work.progress.counts_all or all(each[0] & PERSISTENT for each in batch.messages):
            return work.progress.partial.get(start, 0)
        return 0

    def _take(self, batch: _Batch, count: int) -> None:
        """Count the first messages of a batch, which are here, and leave the others in it."""
        here = batch.messages[:count]
        self._next = batch.places[:count][-1] + 1 if here else self._next
        batch.messages, batch.places = batch.messages[count:], batch.places[count:]
        self.moved += len(here)
        self.moved_bytes += sum(map(len, here))
        if self.left is not None:
            self.left = max(self.left - len(here), 0)

    async def _pause(
        self, means: Means, state: State, note: str, *, gives_way: bool = False
    ) -> None:
        """Wait before another attempt; let another move work during that time if it may be long.

        Raises:
            StoppedError: The moves have to end.
        """
        if (self.state, self.note) != (state, note):
            self.state, self.note = state, note
            means.say(f"queue '{self.name}' in vhost '{self.vhost}': {state}, {note}")
        if gives_way:
            means.slots.release()
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                await means.stop.wait()
        except TimeoutError:
            return
        finally:
            if gives_way:
                await means.slots.acquire()
        raise StoppedError


def _parts(deliveries: Sequence[Delivery], count_max: int) -> Iterator[Sequence[Delivery]]:
    """Yield runs of deliveries that fit into a batch."""
    start = size = 0
    for at, each in enumerate(deliveries):
        octets = len(each.body) + len(each.header) + len(each.route) + 8
        if at > start and (size + octets > BATCH_BYTES or at - start >= count_max):
            yield deliveries[start:at]
            start, size = at, 0
        size += octets
    if start < len(deliveries):
        yield deliveries[start:]


async def _in_thread(means: Means, work: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(means.executor, work)
