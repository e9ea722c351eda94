"""HTTP servers that send what no server should send: each answer denies, in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from amqp_server.access.backends.backend import Identity, Refusal
from amqp_server.access.backends.chain import OutsideBackend
from amqp_server.access.backends.http_answer import BadAnswerError, read_answer
from amqp_server.access.backends.http_backend import HttpBackend
from amqp_server.access.backends.login import Login
from amqp_server.base.config import ServerConfig
from tests.limits import HANG_SECONDS

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def asking(
    answer: Answer,
    method: str = "post",
    *,
    timeout_seconds: float = 9.0,  # short: the setting is below ten
) -> AsyncIterator[OutsideBackend]:
    """A back end whose server reads a request and then does something.

    Args:
        answer: What it does.
        method: How it is asked.
        timeout_seconds: How long the back end waits for the answer.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
    config = ServerConfig(
        auth_backends="http",
        auth_timeout_seconds=timeout_seconds,
        auth_http_method=method,
        auth_http_user_path=url,
        auth_http_vhost_path=url,
        auth_http_resource_path=url,
        auth_http_topic_path=url,
    )
    backend = OutsideBackend("http", HttpBackend(config), config.auth_timeout_seconds)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()
        server.close()


async def endless(writer: asyncio.StreamWriter, head: bytes, part: bytes) -> None:
    writer.write(head)
    while not writer.is_closing():
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0)


def sends(octets: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(octets)
        await writer.drain()

    return answer


async def hang(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"content-length: 5\r\n\r\nall")
    await writer.drain()
    await asyncio.sleep(2)


HOSTILE: dict[str, Answer] = {
    "nothing": sends(b""),
    "garbage": sends(b"\x00\xff" * 100),
    "no HTTP": sends(b"allow\r\n\r\n"),
    "half an answer": hang,
    "cut": sends(HEAD + b"content-length: 50\r\n\r\nallow"),
    "endless body": lambda w: endless(w, HEAD + b"\r\n", b"allow " * 1000),
    "endless chunks": lambda w: endless(
        w, HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n"
    ),
    "endless headers": lambda w: endless(w, HEAD, b"x: " + b"y" * 1000 + b"\r\n"),
    "one endless header": lambda w: endless(w, HEAD + b"x: ", b"y" * 1000),
    "endless preliminaries": lambda w: endless(w, b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "two lengths": sends(HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nallow"),
    "negative length": sends(HEAD + b"content-length: -5\r\n\r\nallow"),
    "packed": sends(HEAD + b"content-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\x08\x00"),
    "huge": sends(HEAD + b"content-length: 70000\r\n\r\n" + b"allow" + b" " * 69_995),
    "to itself": sends(b"HTTP/1.1 307 x\r\nlocation: /x\r\ncontent-length: 5\r\n\r\nallow"),
}


@pytest.mark.parametrize("kind", list(HOSTILE))
async def test_a_hostile_answer_denies(kind: str) -> None:
    limit = asyncio.timeout(HANG_SECONDS)
    # Some never answer: that it ends is what is tested.
    async with asking(HOSTILE[kind], timeout_seconds=0.5) as backend, limit:  # short: see above
        found = await backend.log_in("alice", "geheim", "::1")
        assert isinstance(found, Refusal)
        rules = backend.login_of(Identity("alice"), "::1").rules
        assert rules.generation == 0
        assert backend.questions.failures.count == 1
        assert "geheim" not in str(backend.status)


@pytest.mark.parametrize("method", ["get", "post"])
async def test_a_password_is_not_in_the_reason(method: str) -> None:
    for octets in (b"geheim\r\n\r\n", HEAD + b"content-length: 6\r\n\r\ngeheim"):
        async with asking(sends(octets), method) as backend:
            found = await backend.log_in("alice", "geheim", "::1")
            assert isinstance(found, Refusal)
            assert "geheim" not in found.reason


async def test_an_answer_in_pieces_counts() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for octet in HEAD + b"content-length: 7\r\n\r\nallow x":
            writer.write(bytes([octet]))
            await writer.drain()

    async with asking(answer) as backend:
        found = await backend.log_in("alice", "geheim", "::1")
        assert isinstance(found, Login)
        assert found.tags == ("x",)


async def test_a_connection_that_was_closed_while_idle_is_no_failure() -> None:
    octets = HEAD + b"content-length: 5\r\n\r\nallow"
    async with asking(sends(octets)) as backend:
        # The server closes each connection after its answer, without saying so.
        for user in ("a", "b", "c"):
            assert isinstance(await backend.log_in(user, "x", "::1"), Login)


@pytest.mark.parametrize(
    ("text", "words"),
    [("allow", ()), ("ALLOW", ()), ("allow  A b ", ("a", "b")), ("\nallow\n", ())],
)
def test_what_allows(text: str, words: tuple[str, ...]) -> None:
    answer = read_answer(200, text.encode(), is_shown=True)
    assert (answer.allows, answer.words) == (True, words)


@pytest.mark.parametrize("text", ["", "allow\tx", "allowx", "denyx", "true", "<html>allow</html>"])
def test_what_is_no_answer(text: str) -> None:
    with pytest.raises(BadAnswerError):
        read_answer(200, text.encode(), is_shown=True)


def test_a_reason_comes_with_deny() -> None:
    answer = read_answer(201, b"deny  not today ", is_shown=True)
    assert (answer.allows, answer.reason) == (False, "not today")
