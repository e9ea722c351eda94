"""One virtual host of a broker in a test: a broker of its own, as far as clients can see."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from amqp_server.testing.broker_view import BrokerView
from amqp_server.testing.errors import BrokerStateError
from amqp_server.testing.expected_message import ANYTHING, ExpectedMessage
from amqp_server.testing.faults.chaos import MESSAGES_MEAN
from amqp_server.testing.message import Message
from amqp_server.testing.queue_view import LOOK_SECONDS, QueueView, ServerLoop
from amqp_server.testing.urls import amqp_url

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType

    from amqp_server.server import Server
    from amqp_server.testing.clock import TurnedClock
    from amqp_server.testing.faults.chaos import Chaos
    from amqp_server.testing.faults.faults import Faults
    from amqp_server.testing.faults.saved_checkpoint import SavedCheckpoint
    from amqp_server.testing.publish_record import Published, PublishRecord

ARRIVAL_SECONDS: Final = 1.0
"""Seconds within which an expected message must arrive: a publish without confirm is under way."""


class VhostOwner(ServerLoop, Protocol):
    """The broker, as its virtual hosts use it."""

    def record_of(self, vhost: str) -> PublishRecord:
        """Return the record of what was published to a virtual host."""

    @property
    def host(self) -> str:
        """Address at which the broker listens."""

    @property
    def port(self) -> int:
        """TCP port at which the broker listens."""

    @property
    def clock(self) -> TurnedClock:
        """Clock of the broker."""

    @property
    def faults(self) -> Faults:
        """Faults on demand, in all virtual hosts."""

    def save_checkpoint(self) -> SavedCheckpoint:
        """Write what is acknowledged now to the files; return a copy."""

    def crash(self, checkpoint: SavedCheckpoint | None = None) -> None:
        """End as after `kill -9`, and start again."""

    def chaos(
        self, seed: int | None = None, *, messages_mean: int = MESSAGES_MEAN
    ) -> AbstractContextManager[Chaos]:
        """Let things go wrong at random."""

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with everything in it."""

    def start(self) -> object:
        """Start the broker."""

    def stop(self) -> None:
        """Stop the broker."""

    def restart(self) -> None:
        """Restart the broker."""


class VirtualHost:
    """A virtual host with exchanges and queues of its own; made by `Broker.new_vhost`.

    As a context manager it is deleted at the end.

    Args:
        owner: Broker that has it.
        name: Name of the virtual host, which exists.

    Attributes:
        vhost: Its name.
    """

    def __init__(self, owner: VhostOwner, name: str) -> None:
        self._owner = owner
        self.vhost = name

    @property
    def host(self) -> str:
        """Address at which the broker listens."""
        return self._owner.host

    @property
    def port(self) -> int:
        """TCP port at which the broker listens."""
        return self._owner.port

    @property
    def url(self) -> str:
        """URL of this virtual host, with the user `guest`."""
        return amqp_url(self.host, self.port, self.vhost)

    @property
    def clock(self) -> TurnedClock:
        """Clock of the whole broker; see `Broker.clock`."""
        return self._owner.clock

    # What it holds

    def queue(self, name: str) -> QueueView:
        """Return a view of a queue, which may be declared later."""
        return QueueView(self._owner, self.vhost, name)

    def view(self) -> BrokerView:
        """Return what the virtual host holds now; as text it is a report."""

        async def look(server: Server) -> BrokerView:
            return BrokerView.of(server, self.vhost)

        return self._owner.submit(look).result()

    def published(
        self,
        queue: str | None = None,
        *,
        exchange: str | None = None,
        routing_key: str | None = None,
    ) -> list[Message]:
        """Return the messages that clients have published, in order, with where they went.

        The last 10,000 messages and 16 MiB are remembered. Dead letters are not published.

        Args:
            queue: Name of a queue that they went to; None for all, also unroutable ones.
            exchange: Name of the exchange; None for all.
            routing_key: Routing key; None for all.
        """
        found, _ = self._published(0, queue, exchange, routing_key)
        return found

    def assert_published(
        self,
        queue: str | None = None,
        *,
        exchange: str | None = None,
        routing_key: str | None = None,
        body: bytes | None = None,
        json: Any = ANYTHING,  # noqa: ANN401 - any JSON
        headers: Mapping[str, Any] | None = None,
        seconds_max: float = ARRIVAL_SECONDS,
    ) -> Message:
        """Return the first published message that is as expected; wait for one that is under way.

        Args:
            queue: As for `published`.
            exchange: As for `published`.
            routing_key: As for `published`.
            body: The whole body; None for any.
            json: What the body says in JSON.
            headers: Headers that the message has among others.
            seconds_max: Seconds within which it must arrive.

        Raises:
            AssertionError: There is none; shows how the closest one differs.
        """
        expected = ExpectedMessage(body, json, headers or {})
        named = {"queue": queue, "exchange": exchange, "routing key": routing_key}
        place = ", ".join(f"{name} '{value}'" for name, value in named.items() if value is not None)

        end_seconds = time.monotonic() + seconds_max
        seen = 0
        others: list[Message] = []
        while True:
            found, seen = self._published(seen, queue, exchange, routing_key)
            for message in found:
                if expected.matches(message):
                    return message
            others += found
            if time.monotonic() >= end_seconds:
                raise AssertionError(expected.difference(place or "any exchange", others))
            time.sleep(LOOK_SECONDS)

    def _published(
        self, seen: int, queue: str | None, exchange: str | None, routing_key: str | None
    ) -> tuple[list[Message], int]:
        """Return the messages after the first `seen` that match, and how many there were ever."""

        async def look(_: Server) -> tuple[list[Published], int]:
            record = self._owner.record_of(self.vhost)
            return record.since(seen), record.count

        # Decoded in this thread: the broker's loop has clients to serve.
        published, count = self._owner.submit(look).result()
        found = [
            message
            for message in (
                Message.decode(octets, queues)
                for octets, queues in published
                if queue is None or queue in queues
            )
            if exchange in (None, message.exchange) and routing_key in (None, message.routing_key)
        ]
        return found, count

    # Faults

    @property
    def faults(self) -> Faults:
        """Faults on demand, limited to connections and queues of this virtual host.

        Alarms and the full disk are those of the whole broker.
        """
        return self._owner.faults.only(self.vhost)

    def save_checkpoint(self) -> SavedCheckpoint:
        """Write a checkpoint of the whole broker; see `Broker.save_checkpoint`."""
        return self._owner.save_checkpoint()

    def chaos(
        self, seed: int | None = None, *, messages_mean: int = MESSAGES_MEAN
    ) -> AbstractContextManager[Chaos]:
        """Let the connections of this virtual host end at random; see `Faults.chaos`."""
        return self.faults.chaos(seed, messages_mean=messages_mean)

    def crash(self, checkpoint: SavedCheckpoint | None = None) -> None:
        """Crash the whole broker; see `Broker.crash`."""
        self._owner.crash(checkpoint)

    # Start and stop

    def stop(self) -> None:
        """Stop the whole broker; see `Broker.stop`."""
        self._owner.stop()

    def start(self) -> None:
        """Start the whole broker again; see `Broker.start`."""
        self._owner.start()

    def restart(self) -> None:
        """Restart the whole broker; see `Broker.restart`."""
        self._owner.restart()

    def delete(self) -> None:
        """Delete the virtual host with everything in it, and close its connections.

        A second call does nothing.
        """
        self._owner.delete_vhost(self.vhost)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A broker that the test has stopped deletes nothing, and the test's own error counts.
        with suppress(BrokerStateError):
            self.delete()
