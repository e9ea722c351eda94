"""A peer that is a real broker until it does what no broker should."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

Change = Callable[[bytes], tuple[bytes, bool]]
"""From octets of the broker to what the client gets, and whether the socket is closed then."""


class Relay:
    """Passes octets between clients and a broker, and changes those of the broker.

    Args:
        port: Port of the broker on this machine.
        change: Makes the change of one connection.

    Attributes:
        octets: Octets that the brokers have sent to the last client.
    """

    def __init__(self, port: int, change: Callable[[], Change]) -> None:
        self._broker_port = port
        self._change = change
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ending = asyncio.Event()
        self.octets = 0

    @property
    def url(self) -> str:
        """Address of the relay."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"amqp://guest:guest@127.0.0.1:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self._is_ending.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until_unused(self) -> None:
        """Return when the clients that are connected now have gone."""
        await asyncio.gather(*self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.octets = 0
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self._broker_port)
        to_client = self._change()
        ways = [
            asyncio.ensure_future(self._pass(reader, their_writer, unchanged(), counts=False)),
            asyncio.ensure_future(self._pass(their_reader, writer, to_client, counts=True)),
            asyncio.ensure_future(self._is_ending.wait()),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        # What is written goes out before the end.
        for end in (writer, their_writer):
            end.close()
        for each in ways:
            each.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, their_writer):
            with suppress(OSError):
                await end.wait_closed()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        change: Change,
        *,
        counts: bool,
    ) -> None:
        ends = False
        while not ends and (octets := await reader.read(65536)):
            self.octets += len(octets) if counts else 0
            octets, ends = change(octets)
            writer.write(octets)
            await writer.drain()


def unchanged() -> Change:
    """Change nothing."""
    return lambda octets: (octets, False)


def ending_at(position: int, garbage: bytes = b"") -> Callable[[], Change]:
    """Send garbage after so many octets, and close."""

    def make() -> Change:
        left = position

        def change(octets: bytes) -> tuple[bytes, bool]:
            nonlocal left
            kept = octets[:left]
            left -= len(kept)
            return (kept, False) if left else (kept + garbage, True)

        return change

    return make


def inserting(frames: bytes, behind: bytes) -> Callable[[], Change]:
    """Send frames behind the first frame that has these octets, which come in one read."""

    def make() -> Change:
        is_due = True

        def change(octets: bytes) -> tuple[bytes, bool]:
            nonlocal is_due
            if is_due and (at := octets.find(behind)) >= 0:
                is_due = False
                end = octets.index(b"\xce", at) + 1
                return octets[:end] + frames + octets[end:], False
            return octets, False

        return change

    return make
