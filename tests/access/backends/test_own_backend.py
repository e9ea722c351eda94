"""Back ends of one's own: the example of the page, and those that misbehave."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Channel, Queue

from amqp_server.access.backends import chain
from amqp_server.access.backends.backend import Identity, Refusal
from amqp_server.access.backends.chain import Chain, OutsideBackend
from amqp_server.access.backends.failure_log import REASON_CHARACTERS_MAX
from amqp_server.access.backends.loading import load_backends
from amqp_server.access.backends.login import Login
from amqp_server.base.config import ServerConfig
from amqp_server.base.errors import StartupError
from amqp_server.control.client import ask
from tests.amqp_client import connect
from tests.servers import REPOSITORY
from tests.threaded_server import ThreadedServer

PAGE = REPOSITORY / "docs" / "authentication-backends.md"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A directory of packages, as pip would install them."""
    path = tmp_path / "site"
    path.mkdir()
    sys.path.insert(0, str(path))
    before = set(sys.modules)
    yield path
    sys.path.remove(str(path))
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]


def install(site: Path, module: str, code: str, name: str, target: str) -> None:
    (site / f"{module}.py").write_text(code)
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[amqp_server.auth_backends]\n{name} = {module}:{target}\n"
    )


def test_the_example_of_the_page_works(tmp_path: Path, site: Path) -> None:
    code = next(
        each.partition("```")[0]
        for each in PAGE.read_text().split("```python\n")
        if "class WordOfTheDay" in each
    )
    install(site, "own_word", code, "word", "WordOfTheDay")
    with ThreadedServer(tmp_path / "data", auth_backends="internal,word") as server:
        with pytest.raises(AssertionError):
            connect(server.address, user="alice", password="wrong")
        with connect(server.address, user="alice", password="swordfish") as client:
            client.open_channel()
            client.call(Queue.Declare(queue="alice.q"), Queue.DeclareOk)
            client.send(Queue.Declare(queue="bob.q"))
            assert "refused for user 'alice'" in str(client.expect(Channel.Close).reply_text)
        path = server.server.config.storage_path
        found = ask(path, "logins.check", user="bob", password="swordfish", peer_host="::1")
        assert found["tags"] == ["management"]
        connect(server.address).close()


def test_a_back_end_that_is_not_there_is_named_with_those_that_are(site: Path) -> None:
    install(site, "own_there", "class There: pass\n", "there", "There")
    with pytest.raises(
        StartupError, match=r"no back end 'missing': known are internal, http.*there"
    ):
        load_backends(ServerConfig(auth_backends="missing"))
    with pytest.raises(StartupError, match="there has no method authenticate"):
        load_backends(ServerConfig(auth_backends="there"))


@pytest.mark.parametrize("code", ["raise OSError('broken')\n", "x = 1\n", "def made(): 1 / 0\n"])
def test_a_back_end_that_cannot_be_loaded_stops_the_start(site: Path, code: str) -> None:
    install(site, "own_broken", code, "broken", "made")
    with pytest.raises(StartupError, match="auth-backends: broken cannot be loaded"):
        load_backends(ServerConfig(auth_backends="broken"))


class Misbehaving:
    """Answers whatever it is told to, or raises it."""

    def __init__(self, answer: Any) -> None:  # noqa: ANN401
        self.answer = answer
        self.cancelled = 0

    async def authenticate(self, *_: object) -> Any:  # noqa: ANN401
        if isinstance(self.answer, BaseException):
            raise self.answer
        if self.answer == "hang":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                # It does not end.
                await asyncio.Event().wait()
        return self.answer

    may_open_vhost = may_use = may_use_topic = authenticate


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        "allow",
        {"name": "alice"},
        ValueError("broken"),
        SystemExit(3),
        asyncio.CancelledError(),
        Identity(""),
        Identity("x" * 256),
        Identity("\udcff"),
        Identity(5),  # type: ignore[arg-type]
        Identity("alice", ["administrator"]),  # type: ignore[arg-type]
        Identity("alice", "administrator"),  # type: ignore[arg-type]
        Identity("alice", (5,)),  # type: ignore[arg-type]
        Identity("alice", ("x",) * 65),
        Identity("alice", expires="never"),  # type: ignore[arg-type]
        Identity("alice", expires=float("nan")),
        Identity("alice", expires=1.0),
        Identity("alice", data=[]),  # type: ignore[arg-type]
        Refusal(5),  # type: ignore[arg-type]
        Refusal("no"),
        "hang",
    ],
)
async def test_whatever_is_no_identity_is_refused(answer: Any) -> None:  # noqa: ANN401
    backend = OutsideBackend("own", Misbehaving(answer), 0.05)
    assert isinstance(await backend.log_in("alice", "secret", "::1"), Refusal)
    assert "secret" not in str(backend.status)


async def test_a_back_end_that_does_not_close_keeps_nobody_from_stopping(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chain, "CLOSING_SECONDS_MAX", 0.01)

    class Stubborn(Misbehaving):
        is_closed = False

        async def start(self) -> None:
            pass

        async def close(self) -> None:
            await asyncio.Event().wait()

    class Quick(Stubborn):
        async def close(self) -> None:
            self.is_closed = True

    quick = Quick(None)
    both = [OutsideBackend("stubborn", Stubborn(None), 5), OutsideBackend("quick", quick, 5)]
    await Chain(both).close()
    assert quick.is_closed
    assert "authentication back end not closed backend=stubborn" in caplog.text


async def test_an_identity_lets_in() -> None:
    backend = OutsideBackend("own", Misbehaving(Identity("bob", ("x",))), 5)
    found = await backend.log_in("alice", "secret", "::1")
    assert isinstance(found, Login)
    assert (found.user, found.tags, found.backend) == ("bob", ("x",), "own")


async def test_long_names_and_reasons_are_not_remembered() -> None:
    backend = OutsideBackend("own", Misbehaving(Refusal("reason" * 10_000)), 5)
    found = await backend.log_in("name" * 10_000, "secret", "::1")
    assert isinstance(found, Refusal)
    assert len(found.reason) == REASON_CHARACTERS_MAX
    assert len(repr(backend.questions._known)) < 1000
    assert isinstance(await backend.log_in("name" * 10_000, None, "::1"), Refusal)
    assert backend.questions.asked_count == 2


@pytest.mark.parametrize(("user", "password"), [("a", ""), ("a", "\udcff"), ("\udcff", "a")])
async def test_what_is_no_text_is_not_asked(user: str, password: str) -> None:
    backend = OutsideBackend("own", Misbehaving(Identity("bob")), 5)
    assert isinstance(await backend.log_in(user, password, "::1"), Refusal)
    assert backend.questions.asked_count == 0
