"""Bounds of the HTTP server: connections, slow clients, and what a list may cost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from aiohttp.web import BaseRequest, Response, StreamResponse

from amqp_server.management.http import bodies, rendered, responses, sockets
from amqp_server.management.http.answers import ApiError, Octets, Stream
from amqp_server.management.http.bodies import BodyBudget
from amqp_server.management.http.call import Call, User
from amqp_server.management.http.rendered import RenderedLists
from amqp_server.management.http.responses import send
from amqp_server.management.http.sockets import BoundedServer
from tests.management.conftest import ManagementServer

Serve = Callable[[BaseRequest], Awaitable[StreamResponse]]


async def listen(serve: Serve, connections_max: int = 100) -> tuple[asyncio.Server, int]:
    """Serve on a free port; return it with the server."""
    server = BoundedServer(serve, connections_max)
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    return listening, int(listening.sockets[0].getsockname()[1])


async def answer(request: BaseRequest) -> StreamResponse:
    """Answer every request."""
    return Response(text="fine")


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Send a request; return the first line of the answer, empty if the connection ended."""
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    line = await reader.readline()
    while (await reader.readline()).strip():
        pass
    await reader.read(4)
    return line


async def test_one_connection_too_many_ends_the_one_that_was_idle_longest() -> None:
    listening, port = await listen(answer, connections_max=3)
    clients = []
    for _ in range(3):
        clients.append(await asyncio.open_connection("127.0.0.1", port))
        assert await ask(*clients[-1])
    # The first is used again: now the second has been idle longest.
    assert await ask(*clients[0])

    clients.append(await asyncio.open_connection("127.0.0.1", port))
    assert await ask(*clients[3])

    assert await clients[1][0].read() == b""
    for number in (0, 2, 3):
        assert await ask(*clients[number])
    for _, writer in clients:
        writer.close()
    listening.close()


async def test_a_busy_connection_is_not_ended_for_another() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def serve(request: BaseRequest) -> StreamResponse:
        if not begun.is_set():
            begun.set()
            await may_end.wait()
        return Response(text="fine")

    listening, port = await listen(serve, connections_max=1)
    busy = await asyncio.open_connection("127.0.0.1", port)
    asked = asyncio.create_task(ask(*busy))
    await begun.wait()
    idle = await asyncio.open_connection("127.0.0.1", port)
    assert await idle[0].read() == b"", "the new one itself is the only idle one"
    idle[1].close()

    may_end.set()
    assert b"200" in await asked
    busy[1].close()
    listening.close()


@pytest.fixture
def seconds_max(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make clients that wait for nothing too slow at once."""
    monkeypatch.setattr(bodies, "BODY_SECONDS_MAX", 0.05)
    monkeypatch.setattr(responses, "WRITE_SECONDS_MAX", 0.05)
    return iter(())


@pytest.mark.usefixtures("seconds_max")
async def test_a_body_that_does_not_come_is_408() -> None:
    async def serve(request: BaseRequest) -> StreamResponse:
        try:
            await bodies.read_octets(request, 1000, lambda _size: None)
        except ApiError as error:
            return await send(request, error.answer(), {})
        raise AssertionError("it came")

    listening, port = await listen(serve)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab")

    assert b" 408 " in await reader.readline()
    assert b"connection: close" in (await reader.read()).lower()
    writer.close()
    listening.close()


@pytest.mark.parametrize("part", [b"", b"GET /", b"GET / HTTP/1.1\r\nx: y\r\n"])
@pytest.mark.parametrize("answered", [0, 1])
async def test_headers_that_come_an_octet_at_a_time_end_the_connection(
    part: bytes, answered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "IDLE_SECONDS_MAX", 0.2)
    listening, port = await listen(answer)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(answered):
        assert await ask(reader, writer)

    def drip(octets: bytes) -> None:
        if not writer.is_closing():
            writer.write(octets)
            asyncio.get_running_loop().call_later(0.02, drip, b"z" if part else b"")

    drip(part)
    with suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
    listening.close()


@pytest.mark.usefixtures("seconds_max")
async def test_a_client_that_does_not_read_is_cut_off() -> None:
    failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    async def serve(request: BaseRequest) -> StreamResponse:
        try:
            return await send(request, Octets(200, "x/y", bytes(50_000_000)), {})
        except ConnectionError as error:
            failed.set_result(error)
            raise

    listening, port = await listen(serve)
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")

    assert "does not read" in str(await failed)
    writer.close()
    listening.close()


async def test_a_stream_ends_when_its_client_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "LOOK_SECONDS", 0.01)
    ended = asyncio.Event()

    async def parts() -> Any:  # noqa: ANN401 - an iterator
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def serve(request: BaseRequest) -> StreamResponse:
        return await send(request, Stream("text/event-stream", parts()), {})

    listening, port = await listen(serve)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    await reader.readuntil(b"first")
    writer.close()

    await ended.wait()
    listening.close()


def test_the_bodies_of_all_requests_share_a_budget() -> None:
    budget = bodies.BodyBudget(100)
    budget.take(60)
    with pytest.raises(ApiError) as refused:
        budget.take(41)
    assert refused.value.status == 503
    budget.release(60)

    budget.take(100)


def test_a_request_without_a_login_has_a_short_body_at_most(
    shared_management_server: ManagementServer,
) -> None:
    body = {"username": "guest", "password": "x" * bodies.STRANGERS_BODY_BYTES_MAX}
    reply = shared_management_server.post("/session", body, user=None)

    assert reply.status == 400
    assert reply.json["reason"] == "Exceeded HTTP request body size limit"


async def test_a_costly_answer_is_given_again_until_something_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rendered, "COSTLY_SECONDS", 0.0)
    lists = RenderedLists()
    made = []

    def call_of(user: User, query: dict[str, str]) -> Call:
        request = make_mocked_request("GET", "/")
        return Call("GET", "/api/queues", {}, query, {}, "", 0, request, BodyBudget(), user)

    async def ask(user: User, **query: str) -> bytes:
        async def make() -> Octets:
            made.append(user.name)
            return Octets(200, "application/json", b"%d" % len(made))

        answer = await lists.answer(call_of(user, query), make)
        assert isinstance(answer, Octets)
        return answer.body

    one, other = (User(name, ("administrator",), frozenset()) for name in ("a", "b"))
    limited = User("c", ("management",), frozenset({"/"}))
    assert set(await asyncio.gather(ask(one), ask(one), ask(other))) == {b"1"}
    assert await ask(other) == b"1", "the same rights"
    assert await ask(limited) == b"2", "other rights"
    assert await ask(one, columns="name") == b"3", "another question"

    lists.forget()
    assert await ask(one) == b"4"


async def test_a_costly_answer_is_compressed_once_for_all_who_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rendered, "COSTLY_SECONDS", 0.0)
    packed = []

    async def compress(body: bytes) -> bytes:
        packed.append(body)
        await asyncio.sleep(0)
        return b"packed"

    monkeypatch.setattr(rendered, "compress", compress)
    lists = RenderedLists()

    async def make() -> Octets:
        return Octets(200, "application/json", bytes(2_000))

    async def ask(encoding: str) -> bytes | None:
        request = make_mocked_request("GET", "/", {"Accept-Encoding": encoding})
        user = User("a", ("administrator",), frozenset())
        call = Call("GET", "/api/queues", {}, {}, {}, "", 0, request, BodyBudget(), user)
        answer = await lists.answer(call, make)
        assert isinstance(answer, Octets)
        return answer.gzipped

    clients = ["gzip", "gzip", "identity", "gzip"]
    expected = [b"packed", b"packed", None, b"packed"]
    assert await asyncio.gather(*map(ask, clients)) == expected
    assert [await ask(encoding) for encoding in clients] == expected
    assert len(packed) == 1
