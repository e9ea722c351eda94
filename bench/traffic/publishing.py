"""The process of the publishers: each has a connection, and a part of the corpus."""

import select
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.amqp_frames import try_parse_frame
from bench.broker_url import BrokerUrl
from bench.connection import STALL_SECONDS_MAX, Connection
from bench.errors import BenchError, UnexpectedFrameError
from bench.latency import LatencySummary
from bench.publisher import PUBLISH_CHANNEL
from bench.traffic.corpus import Corpus
from bench.traffic.frames import NUMBER_BITS, PUBLISHER_BITS, ConfirmScanner
from bench.traffic.message_source import MessageSource
from bench.worker import Counters, StartLine

_READ_BYTES: Final = 65_536
_LOOK_SECONDS: Final = 0.05
_PLACES_TIMES: Final = 64


@dataclass(frozen=True, slots=True)
class PublishOrder:
    """Instructions for the publishers of one process.

    Attributes:
        url: The broker.
        source: Source of the corpus.
        seed: Seed of the corpus and of the ids.
        phase: Number of the run on these queues, 0 to 255; no serial occurs in two phases.
        publishers: Number of publishers, each with a connection of its own.
        window: Most publishes without a confirm, for each publisher; 0 for no confirms.
        batch: Messages of each write.
        seconds: How long to publish.
        count: Messages of each publisher instead; None for the time. A multiple of `batch`.
    """

    url: BrokerUrl
    source: MessageSource
    seed: int
    phase: int
    publishers: int
    window: int
    batch: int
    seconds: float
    count: int | None = None


@dataclass(frozen=True, slots=True)
class PublishResult:
    """Publishes of one process.

    Attributes:
        published: Messages sent.
        confirmed: Messages that the broker acknowledged; all of them without confirms.
        nacked: Messages that the broker refused.
        start_ns: CLOCK_MONOTONIC before the first byte.
        end_ns: CLOCK_MONOTONIC when the broker had handled all.
        cpu_seconds: CPU that the process used.
        latency: Time from each publish to its confirm; None without confirms.
    """

    published: int
    confirmed: int
    nacked: int
    start_ns: int
    end_ns: int
    cpu_seconds: float
    latency: LatencySummary | None


class _Publisher:
    """One connection with its part of the corpus, and the unsent rest of its last write."""

    def __init__(
        self, connection: Connection, corpus: Corpus, order: PublishOrder, number: int
    ) -> None:
        self.connection = connection
        places = 1 << (order.window * _PLACES_TIMES).bit_length()
        self.confirms = ConfirmScanner(order.window, places)
        self.unsent = memoryview(b"")
        self.published = 0
        self._corpus = corpus
        self._order = order
        self._serial = order.phase << (NUMBER_BITS + PUBLISHER_BITS) | number << NUMBER_BITS
        # Whole writes only: a message is not renewed before its octets are sent.
        share = corpus.count // order.publishers // order.batch * order.batch
        if not share:
            raise ValueError(f"{corpus.count} messages for {order.publishers} publishers")
        self._first = self._next = number * share
        self._end = self._first + share

    @property
    def is_complete(self) -> bool:
        """Whether the count is reached."""
        return self._order.count is not None and self.published >= self._order.count

    def has_room(self) -> bool:
        """Return whether another write is allowed."""
        order = self._order
        return not order.window or self.confirms.has_room(order.batch)

    def write(self) -> bool:
        """Send the rest of the last write, or the next batch; return whether all was taken."""
        if not self.unsent:
            self._renew()
        try:
            sent = self.connection.socket.send(self.unsent)
        except BlockingIOError:
            return False
        self.unsent = self.unsent[sent:]
        return not self.unsent

    def read(self) -> None:
        """Read confirms.

        Raises:
            UnexpectedFrameError: The broker sent something else, such as a close.
            BenchError: The broker closed the connection.
        """
        try:
            received = self.connection.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        if not received:
            raise BenchError("the broker closed a publisher's connection")
        self.confirms.feed(received, time.monotonic_ns())
        if self.confirms.fault:
            parsed = try_parse_frame(self.confirms.fault, 0)
            raise UnexpectedFrameError(parsed.describe() if parsed else "other octets", "a confirm")

    def finish(self) -> None:
        """Send the rest, and wait until the broker has handled all."""
        self.connection.socket.setblocking(True)
        self.connection.send(bytes(self.unsent))
        if not self._order.window:
            self.connection.close_channel()

    def _renew(self) -> None:
        order = self._order
        now_ns = time.monotonic_ns()
        self.unsent = self._corpus.renew(
            self._next, order.batch, self._serial, order.seed, now_ns, time.time_ns()
        )
        if order.window:
            self.confirms.open(order.batch, now_ns)
        self.published += order.batch
        self._serial += order.batch
        self._next += order.batch
        if self._next == self._end:
            self._next = self._first


def publish_traffic(
    start_line: StartLine, order: PublishOrder, counters: Counters
) -> PublishResult:
    """Publish in a process of its own.

    Raises:
        OSError: The broker went away.
        BenchError: The broker refused something, or did nothing for STALL_SECONDS_MAX.
    """
    corpus = order.source.encode_corpus(order.seed)
    with ExitStack() as stack:
        publishers = []
        for number in range(order.publishers):
            connection = stack.enter_context(Connection(order.url, PUBLISH_CHANNEL))
            if order.window:
                connection.select_confirms()
            publishers.append(_Publisher(connection, corpus, order, number))
        start_line.wait()
        start_ns = time.monotonic_ns()
        _publish_until(publishers, order, start_ns + int(order.seconds * 1e9), counters)
        for each in publishers:
            each.finish()
        end_ns = time.monotonic_ns()
        cpu_seconds = start_line.cpu_seconds()
        for each in publishers:
            each.connection.close()
    published = sum(each.published for each in publishers)
    confirms = [each.confirms for each in publishers]
    return PublishResult(
        published=published,
        confirmed=sum(each.confirmed for each in confirms) if order.window else published,
        nacked=sum(each.nacked for each in confirms),
        start_ns=start_ns,
        end_ns=end_ns,
        cpu_seconds=cpu_seconds,
        latency=LatencySummary.of([ns for each in confirms for ns in each.latencies_ns]),
    )


def _publish_until(
    publishers: Sequence[_Publisher], order: PublishOrder, end_ns: int, counters: Counters
) -> None:
    """Publish until the time is over or the counts are reached, and all is confirmed."""
    by_descriptor = {each.connection.socket.fileno(): each for each in publishers}
    # Confirms make room; without them, only the socket does.
    events = select.EPOLLIN if order.window else select.EPOLLOUT
    waiting: set[int] = set()
    with select.epoll() as epoll:
        for descriptor, each in by_descriptor.items():
            each.connection.socket.setblocking(False)
            epoll.register(descriptor, events | select.EPOLLOUT)
            waiting.add(descriptor)
        moved_ns = time.monotonic_ns()
        while by_descriptor:
            ready = epoll.poll(_LOOK_SECONDS)
            now_ns = time.monotonic_ns()
            is_over = order.count is None and now_ns >= end_ns
            if ready:
                moved_ns = now_ns
            elif now_ns - moved_ns > STALL_SECONDS_MAX * 1e9 and not is_over:
                raise BenchError(f"the broker took and confirmed nothing for {STALL_SECONDS_MAX} s")
            elif is_over and now_ns - max(moved_ns, end_ns) > STALL_SECONDS_MAX * 1e9:
                raise BenchError(f"the broker confirmed nothing for {STALL_SECONDS_MAX} s")
            for descriptor, event in ready or [(each, 0) for each in by_descriptor]:
                each = by_descriptor[descriptor]
                if event & ~select.EPOLLOUT:
                    each.read()
                is_stuck = not _write_all(each, order, is_over=is_over)
                if is_stuck != (descriptor in waiting) and order.window:
                    waiting ^= {descriptor}
                    epoll.modify(descriptor, events | (select.EPOLLOUT if is_stuck else 0))
                is_done = (is_over or each.is_complete) and not each.unsent
                if is_done and not (order.window and each.confirms.outstanding()):
                    epoll.unregister(descriptor)
                    del by_descriptor[descriptor]
            counters.published.value = sum(each.published for each in publishers)


def _write_all(each: _Publisher, order: PublishOrder, *, is_over: bool) -> bool:
    """Write as much as window and socket take; without confirms, one write at a time."""
    while each.unsent or not (is_over or each.is_complete):
        if not each.unsent and not each.has_room():
            return True
        if not each.write():
            return False
        if not order.window:
            return True
    return True
