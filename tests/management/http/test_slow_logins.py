"""Logins whose check takes long keep no other request waiting."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from amqp_server.access.passwords import PasswordHash
from amqp_server.access.user import User
from amqp_server.base.waiting_list import WAITING_PER_ADDRESS_MAX
from amqp_server.management.http.exchange import REQUESTS_MAX
from amqp_server.management.http.login_checks import PLACES_PER_ADDRESS
from tests.limits import HANG_SECONDS
from tests.management.conftest import basic
from tests.threaded_server import ThreadedServer

WRONG: Final = "wrong"
STRANGERS: Final = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
"""Where those come from who try passwords."""
ELSEWHERE: Final = "127.0.0.9"
PER_STRANGER: Final = 180


class HeldChecks:
    """Slow checks of the wrong password, which do not end before the test lets them.

    Attributes:
        begun: Set when one has begun.
        may_end: Set by the test.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        matches = PasswordHash.matches

        def held(stored: PasswordHash, password: bytes) -> bool:
            if password == WRONG.encode() and stored.is_slow:
                self.begun.set()
                self.may_end.wait(HANG_SECONDS)
            return matches(stored, password)

        monkeypatch.setattr(PasswordHash, "matches", held)


@contextmanager
def strangers(
    port: int, path: str, count: int, addresses: tuple[str, ...]
) -> Iterator[list[socket.socket]]:
    """Send requests with a wrong password, each from a connection of its own; read no answer."""
    with ExitStack() as opened:
        clients = []
        for number in range(count):
            for address in addresses:
                client = opened.enter_context(
                    socket.create_connection(("127.0.0.1", port), HANG_SECONDS, (address, 0))
                )
                clients.append(client)
                body = f'{{"username": "u{number}", "password": "{WRONG}"}}'
                login = "" if path == "/session" else basic(f"u{number}", WRONG)
                method = "POST" if path == "/session" else "GET"
                client.sendall(
                    f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {login}\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
                )
        yield clients


def ask(port: int, path: str, login: str = "", address: str = "127.0.0.1") -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    connection = HTTPConnection("127.0.0.1", port, HANG_SECONDS, (address, 0))
    headers = {"Host": "localhost", **({"Authorization": login} if login else {})}
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    try:
        return response.status, response.read()
    finally:
        connection.close()


def add_fresh(server: ThreadedServer) -> None:
    """Add a user with a quick hash, who has not logged in yet."""
    user = User("fresh", PasswordHash.quick(b"fresh"), ("monitoring",))
    server.run(lambda: server.server.access.add_user(user))


def port_of(server: ThreadedServer) -> int:
    """Return the port of the API when it answers."""
    management = server.running.management
    assert management is not None
    server.wait_until(lambda: management.is_serving)
    return next(int(urlsplit(url).port or 0) for url in (management.status or {"urls": []})["urls"])


@pytest.mark.parametrize("path", ["/api/overview", "/session"])
def test_checks_that_hang_keep_only_their_own_address_waiting(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PER_STRANGER * len(STRANGERS) > REQUESTS_MAX
    checks = HeldChecks(monkeypatch)
    with ThreadedServer(tmp_path, management_port=-1) as server:
        port = port_of(server)
        add_fresh(server)
        guest = basic("guest")
        assert ask(port, "/api/whoami", guest)[0] == 200
        with strangers(port, path, PER_STRANGER, STRANGERS):
            assert checks.begun.wait(HANG_SECONDS)

            assert ask(port, "/api/overview", guest)[0] == 200
            assert ask(port, "/api/health/checks/is-in-service")[0] == 200
            # From the address of strangers, too: this login is remembered.
            assert ask(port, "/api/overview", guest, STRANGERS[0])[0] == 200
            checks.may_end.set()
            assert ask(port, "/api/whoami", basic("fresh"), ELSEWHERE)[0] == 200


def test_checks_that_hang_leave_places_for_other_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = HeldChecks(monkeypatch)
    with ThreadedServer(tmp_path, management_port=-1) as server:
        port = port_of(server)
        add_fresh(server)
        with strangers(port, "/api/overview", 40, STRANGERS[:1]):
            assert checks.begun.wait(HANG_SECONDS)

            assert ask(port, "/api/whoami", basic("fresh"), ELSEWHERE)[0] == 200
            checks.may_end.set()


def test_more_logins_of_an_address_than_may_wait_are_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = HeldChecks(monkeypatch)
    with ThreadedServer(tmp_path, management_port=-1) as server:
        port = port_of(server)
        add_fresh(server)
        guest = basic("guest")
        assert ask(port, "/api/whoami", guest, STRANGERS[0])[0] == 200
        count = PLACES_PER_ADDRESS + WAITING_PER_ADDRESS_MAX + 1
        with strangers(port, "/api/overview", count, STRANGERS[:1]) as clients:
            # One of them has got an answer: all places are taken.
            assert wait_for(clients, HANG_SECONDS)
            status, body = ask(port, "/api/whoami", basic("fresh"), STRANGERS[0])

            assert (status, json.loads(body)["error"]) == (429, "too_many_logins")
            assert f"'{STRANGERS[0]}'" in json.loads(body)["reason"]
            # Neither those who are remembered, nor other addresses.
            assert ask(port, "/api/whoami", guest, STRANGERS[0])[0] == 200
            assert ask(port, "/api/whoami", basic("fresh"), ELSEWHERE)[0] == 200
            checks.may_end.set()
