"""The events of one broker: sent to an exchange and to followers, if there are any.

An event costs nothing without listeners: no binding leads from the exchange, and no follower
exists. Otherwise its line for followers is made at once, and its messages in a turn of the event
loop. So the broker never waits for a reader of its events. What waits is bounded; later events are
dropped and counted.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.audit.actor import SERVER
from amqp_server.audit.entry import encode_entry
from amqp_server.broker.events.event import Event
from amqp_server.broker.events.event_headers import sent_for
from amqp_server.broker.events.event_message import EVENT_EXCHANGE, EVENT_VHOST, event_message
from amqp_server.broker.publishing.enqueue import enqueue
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.tables import encode_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from amqp_server.audit.actor import Actor
    from amqp_server.broker.events.follower import Follower
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.publishing.target_queue import TargetQueue
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.routing.routing import Routing
    from amqp_server.broker.turn import Turn

    Attributes = Callable[[], Mapping[str, object]]
    """Returns what the message of an event has besides its details."""

logger = logging.getLogger("amqp_server.broker.events.events")

WAITING_MAX: Final = 8192
"""Events that may wait for the queues that they go to; later ones are dropped and counted."""
WAITING_BYTES_MAX: Final = 4 << 20
"""Bytes of these events, about."""
STEP_QUEUES: Final = 64
"""Most queues that get an event in one step."""
LOG_SECONDS: Final = 10.0
"""Shortest time between two log lines about dropped events."""


class EventHost(Protocol):
    """A virtual host, as events see it."""

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """Exchanges by name."""

    @property
    def routing(self) -> Routing:
        """Finds the routes of messages."""


class Events:
    """Tells what happens to an exchange and to followers. The event loop owns it.

    Args:
        turn: Turn of the event loop.
        vhosts: Virtual hosts by name; may change.

    Attributes:
        dropped: Events that no queue got because too many waited, since the server started.
    """

    def __init__(self, turn: Turn, vhosts: Mapping[str, EventHost]) -> None:
        self.dropped = 0
        self.task_queue = turn.upkeep
        self._turn = turn
        self._vhosts = vhosts
        self._followers: dict[Follower, None] = {}
        self._waiting: deque[tuple[Event, int]] = deque()
        self._waiting_bytes = 0
        self._steps: Iterator[None] | None = None
        self._is_blocked = False
        self._logged_dropped = 0
        self._next_log_seconds = 0.0

    @property
    def is_followed(self) -> bool:
        """Whether the events have a listener: a follower or a binding."""
        return bool(self._followers) or self._exchange is not None

    def add(self, follower: Follower) -> None:
        """Tell a follower what happens from now on."""
        self._followers[follower] = None

    def remove(self, follower: Follower) -> None:
        """Tell a follower nothing more."""
        self._followers.pop(follower, None)

    def report(
        self,
        name: str,
        actor: Actor = SERVER,
        *,
        vhost: str = "",
        object_name: str = "",
        details: Mapping[str, object] | None = None,
        attributes: Attributes | None = None,
    ) -> None:
        """Report that something has happened. Never waits.

        Args:
            name: The thing and what happened to it: `queue.deleted`.
            actor: Who did it.
            vhost: Virtual host of the object; empty if it has none.
            object_name: Name of the object; empty if there is none.
            details: More about it, never a secret.
            attributes: Called only for a listener; returns further headers of the message.
        """
        is_published = self._exchange is not None
        if not is_published and not self._followers:
            return
        time_ns = self._turn.clock.time_ns()
        known = details or {}
        more = {} if attributes is None else attributes()
        line = encode_entry(time_ns, name, actor, vhost, object_name, known)[:-1]
        for follower in self._followers:
            follower.put(line)
        if is_published:
            event = Event(name, time_ns, actor, vhost, object_name, known, more)
            self._wait(event, len(line) + _table_bytes(more))

    @property
    def _exchange(self) -> Exchange | None:
        """The exchange, if a binding leads from it."""
        vhost = self._vhosts.get(EVENT_VHOST)
        exchange = None if vhost is None else vhost.exchanges.get(EVENT_EXCHANGE)
        return exchange if exchange is not None and exchange.bindings else None

    def _wait(self, event: Event, size_bytes: int) -> None:
        if (
            len(self._waiting) >= WAITING_MAX
            or self._waiting_bytes + size_bytes > WAITING_BYTES_MAX
        ):
            self._count_dropped()
        else:
            self._waiting.append((event, size_bytes))
            self._waiting_bytes += size_bytes
        # A queue that blocked it may have been deleted.
        self._is_blocked = False
        self._turn.mark(self, self.task_queue)

    def _count_dropped(self) -> None:
        self.dropped += 1
        now_seconds = self._turn.clock.monotonic()
        if now_seconds >= self._next_log_seconds:
            self._next_log_seconds = now_seconds + LOG_SECONDS
            count, self._logged_dropped = self.dropped - self._logged_dropped, self.dropped
            logger.warning("events dropped count=%d waiting=%d", count, len(self._waiting))

    def run_turn(self) -> None:
        """Send what waits, for one slice."""
        if self._steps is None:
            self._steps = self._send_all()
        try:
            for _ in self._steps:
                if self._is_blocked:
                    return
                if self._turn.time_slice.is_over:
                    self._turn.mark(self, self.task_queue)
                    return
        except Exception:
            # One event that cannot be sent must not keep back the others.
            self._turn.mark(self, self.task_queue)
            self._steps = None
            raise
        self._steps = None

    def _send_all(self) -> Iterator[None]:
        while self._waiting:
            event, size_bytes = self._waiting.popleft()
            self._waiting_bytes -= size_bytes
            if self._exchange is None:
                continue
            for routing_key, headers in sent_for(event):
                yield from self._send(
                    routing_key, event_message(routing_key, headers, event.time_ns)
                )
                yield

    def _send(self, routing_key: str, message: bytes) -> Iterator[None]:
        vhost, exchange = self._vhosts.get(EVENT_VHOST), self._exchange
        if vhost is None or exchange is None:
            return
        try:
            queues = yield from vhost.routing.route_in_steps(
                exchange, Envelope((routing_key,), message)
            )
        except AmqpError as error:
            logger.warning("event not routed event=%s reason=%s", routing_key, error)
            return
        for count, queue in enumerate(queues, 1):
            yield from self._until_room(queue)
            enqueue([queue], [message], message[0])
            if count % STEP_QUEUES == 0:
                yield

    def _until_room(self, queue: Queue) -> Iterator[None]:
        while queue.is_stalled and not queue.is_deleted:
            self._is_blocked = True
            queue.waiting_confirms.add(self)
            yield
            self._is_blocked = False

    # amqp_server.broker.publishing.target_queue.ConfirmWaiter

    @property
    def awaits_confirms(self) -> bool:
        """Whether events wait for room in a queue."""
        return self._is_blocked

    def release_confirms(self) -> None:
        """Go on: there may be room in the queue."""
        self._is_blocked = False
        self._turn.mark(self, self.task_queue)

    def refuse_confirms(self, queue: TargetQueue) -> None:
        """Go on without a queue whose log has failed."""
        del queue
        self.release_confirms()


def _table_bytes(attributes: Mapping[str, object]) -> int:
    """Return about how many bytes the field tables among some attributes have."""
    return sum(len(encode_table(each)) for each in attributes.values() if isinstance(each, dict))
