"""Common part of publisher and consumer: one connection by pika, which always ends.

pika's `SelectConnection` uses callbacks and is the fastest of the usual Python clients. Nothing
here is specific to this broker.
"""

import logging
from abc import ABC, abstractmethod
from typing import Any, Final

import pika
from pika.adapters.select_connection import SelectConnection

from cli.demo.errors import DemoError

EXCHANGE: Final = "flights"
QUEUE: Final = "flights"
HOST: Final = "127.0.0.1"
STALL_SECONDS_MAX: Final = 60.0
"""Maximum time without progress before the demo stops with an error."""

# pika logs every lost connection; here the loss is intended.
logging.getLogger("pika").setLevel(logging.CRITICAL)


class DemoClient(ABC):
    """One connection with one channel, from `run` to `finish`.

    Args:
        port: Port of the broker on this machine.
    """

    def __init__(self, port: int) -> None:
        self.channel: Any = None
        self._port = port
        self._connection: Any = None
        self._is_finished = False
        self._has_moved = False
        self._failure: str | None = None

    def run(self) -> None:
        """Connect, call `begin`, and return after `finish`.

        Raises:
            DemoError: The connection failed or was lost, or there is no progress.
        """
        self._connection = SelectConnection(
            pika.ConnectionParameters(HOST, self._port),
            on_open_callback=self._opened,
            on_open_error_callback=self._lost,
            on_close_callback=self._lost,
        )
        self._connection.ioloop.start()
        if self._failure is not None:
            raise DemoError(self._failure)

    @abstractmethod
    def begin(self) -> None:
        """Start the work; the channel is open."""

    def finish(self) -> None:
        """End: messages that were sent reach the broker, then the connection is closed."""
        self._is_finished = True
        if self._connection.is_open:
            self._connection.close()

    def expect_loss(self) -> None:
        """End: the broker has been killed."""
        self._is_finished = True

    def note_progress(self) -> None:
        """Record progress; see `STALL_SECONDS_MAX`."""
        self._has_moved = True

    def fail(self, reason: str) -> None:
        """End with an error."""
        self._failure = reason
        self.finish()

    def _opened(self, connection: Any) -> None:  # noqa: ANN401 - pika has no types
        connection.channel(on_open_callback=self._channel_opened)
        self._watch()

    def _channel_opened(self, channel: Any) -> None:  # noqa: ANN401
        self.channel = channel
        channel.add_on_close_callback(self._channel_closed)
        self.begin()

    def _channel_closed(self, _channel: Any, error: Exception) -> None:  # noqa: ANN401
        if not self._is_finished:
            self.fail(f"the broker closed the channel: {error}")

    def _lost(self, connection: Any, error: Exception | str) -> None:  # noqa: ANN401
        if not self._is_finished:
            self._failure = f"the connection was lost: {error!r}"
            self._is_finished = True
        connection.ioloop.stop()

    def _watch(self) -> None:
        self._has_moved = False
        self._connection.ioloop.call_later(STALL_SECONDS_MAX, self._look)

    def _look(self) -> None:
        if self._is_finished:
            return
        if self._has_moved:
            self._watch()
        else:
            self.fail(f"nothing has happened for {STALL_SECONDS_MAX:.0f} s")
