"""Clients that try wrong passwords, and a back end that never answers: a process of their own."""

import asyncio
import base64
from collections import Counter
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final, Self
from urllib.parse import urlsplit

from bench.errors import BenchError

_ENDED_SECONDS_MAX: Final = 30.0
_RETRY_SECONDS: Final = 0.05


class Strangers:
    """Clients that ask with a wrong password again and again, from the `with` to its end.

    Args:
        url: Where the API is.
        count: Connections.

    Attributes:
        answers: Number of answers by status; known at the end.
    """

    def __init__(self, url: str, count: int) -> None:
        self.answers: dict[int, int] = {}
        self._pipe, theirs = get_context("spawn").Pipe()
        self._process = get_context("spawn").Process(
            target=_run, args=(url, count, theirs), name="strangers", daemon=True
        )

    def __enter__(self) -> Self:
        """Start; return when all of them are connected."""
        self._process.start()
        if not self._pipe.poll(_ENDED_SECONDS_MAX):
            raise BenchError("the strangers are not connected")
        self._pipe.recv()
        return self

    def __exit__(self, *_: object) -> None:
        """End them, and take what they were answered."""
        with suppress(OSError):
            self._pipe.send("end")
            if self._pipe.poll(_ENDED_SECONDS_MAX):
                self.answers = self._pipe.recv()
        self._process.join(_ENDED_SECONDS_MAX)


def _run(url: str, count: int, pipe: Connection) -> None:
    asyncio.run(_attack(url, count, pipe))


async def _attack(url: str, count: int, pipe: Connection) -> None:
    parts = urlsplit(url)
    answers: Counter[int] = Counter()
    clients = [
        asyncio.create_task(_try(parts.hostname or "", parts.port or 0, number, answers))
        for number in range(count)
    ]
    await asyncio.sleep(1.0)
    pipe.send("connected")
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(pipe.fileno(), ended.set)
    await ended.wait()
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    pipe.send(dict(answers))


async def _try(host: str, port: int, number: int, answers: Counter[int]) -> None:
    tried = 0
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            while True:
                tried += 1
                name = "guest" if number % 2 else f"nobody{number}"
                login = base64.b64encode(f"{name}:wrong-{number}-{tried}".encode()).decode()
                writer.write(
                    f"GET /api/overview HTTP/1.1\r\nHost: {host}\r\n"
                    f"Authorization: Basic {login}\r\n\r\n".encode()
                )
                answers[await _status(reader)] += 1
        except (OSError, asyncio.IncompleteReadError, ValueError):
            await asyncio.sleep(_RETRY_SECONDS)


async def _status(reader: asyncio.StreamReader) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = head.partition("content-length:")[2].partition("\r\n")[0].strip()
    await reader.readexactly(int(length or 0))
    return int(head.split(" ", 2)[1])


class SilentBackend:
    """An HTTP server that takes every question and answers none, from the `with` to its end.

    Attributes:
        url: Its address; set within the `with`.
    """

    def __init__(self) -> None:
        self.url = ""
        self._pipe, theirs = get_context("spawn").Pipe()
        self._process = get_context("spawn").Process(
            target=_run_backend, args=(theirs,), name="silent back end", daemon=True
        )

    def __enter__(self) -> Self:
        """Start."""
        self._process.start()
        if not self._pipe.poll(_ENDED_SECONDS_MAX):
            raise BenchError("the silent back end has not started")
        self.url = f"http://127.0.0.1:{self._pipe.recv()}"
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.terminate()
        self._process.join(_ENDED_SECONDS_MAX)


def _run_backend(pipe: Connection) -> None:
    async def hold(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            pass

    async def serve() -> None:
        async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
            pipe.send(server.sockets[0].getsockname()[1])
            await asyncio.Event().wait()

    asyncio.run(serve())
