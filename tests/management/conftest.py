"""A real broker with its management server, on free ports."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from amqp_server.control.client import ask
from tests.conftest import StartServer
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

ManagementOptions = ("--management-port", "-1", "--metrics-port", "-1")


@dataclass(frozen=True)
class Reply:
    """What the server has answered.

    Attributes:
        status: HTTP status.
        headers: Headers, by name in lower case.
        body: Octets of the body.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - a JSON value
        """The body as JSON."""
        return json.loads(self.body)


class ManagementServer:
    """A broker with its management server.

    Attributes:
        server: The broker's process.
        url: Where the API and the page are: `http://127.0.0.1:PORT`.
        metrics_url: Where the metrics are.
        amqp_port: Port for AMQP clients.
        storage_path: Data directory of the broker.
    """

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.storage_path = server.storage_path
        self.url = ""
        self.metrics_url = ""
        self.read_addresses()

    def read_addresses(self) -> None:
        """Find the ports, when the management server serves; again after a restart."""
        line = self.server.wait_for_message("management server started")
        urls = line.partition("urls='")[2].partition("'")[0].split()
        self.url = next(url for url in urls if not url.endswith("/metrics"))
        self.metrics_url = next((url for url in urls if url.endswith("/metrics")), "")
        self.amqp_port = self.server.port

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: str | None = "guest",
        password: str | None = None,
        headers: Mapping[str, str] | None = None,
        url: str | None = None,
    ) -> Reply:
        """Send a request on a connection of its own.

        Args:
            method: HTTP method.
            path: Path with query, sent as it is.
            body: JSON value, or octets; None for no body.
            user: Name for Basic; None sends no login.
            password: Password; None: the same as the name.
            headers: Further headers.
            url: Another server than the API's.
        """
        sent = dict(headers or {})
        if user is not None:
            sent.setdefault("Authorization", basic(user, password))
        octets = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        parts = urlsplit(url or self.url)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=HANG_SECONDS)
        try:
            connection.request(method, path, octets, sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str, **options: Any) -> Reply:  # noqa: ANN401 - of `request`
        """Send GET; see `request`."""
        return self.request("GET", path, **options)

    def put(self, path: str, body: object = None, **options: Any) -> Reply:  # noqa: ANN401 - of `request`
        """Send PUT; see `request`."""
        return self.request("PUT", path, {} if body is None else body, **options)

    def post(self, path: str, body: object = None, **options: Any) -> Reply:  # noqa: ANN401 - of `request`
        """Send POST; see `request`."""
        return self.request("POST", path, {} if body is None else body, **options)

    def delete(self, path: str, **options: Any) -> Reply:  # noqa: ANN401 - of `request`
        """Send DELETE; see `request`."""
        return self.request("DELETE", path, **options)

    def ask(self, command: str, **arguments: object) -> Any:  # noqa: ANN401 - of any command
        """Send a command to the control socket, as the administrator of the machine."""
        return ask(self.storage_path, command, **arguments)

    def add_user(self, name: str, *tags: str, vhosts: Sequence[str] = ()) -> None:
        """Add a user whose password is its name, with all rights in some virtual hosts."""
        algorithm = "rabbit_password_hashing_sha256"
        hashed = self.ask("passwords.hash", password=name, algorithm=algorithm)
        self.ask("users.add", name=name, tags=list(tags), **hashed)
        for vhost in vhosts:
            rights = dict.fromkeys(("configure", "write", "read"), ".*")
            self.ask("permissions.set", vhost=vhost, user=name, **rights)

    @property
    def process_id(self) -> int:
        """Process id of the management server that serves now."""
        return int(self.ask("status")["management"]["pid"])


def basic(user: str, password: str | None = None) -> str:
    """Return the header Authorization of a user; the password is the name unless given."""
    pair = f"{user}:{user if password is None else password}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


StartManagementServer = Callable[..., ManagementServer]


@pytest.fixture
def start_management_server(start_server: StartServer) -> StartManagementServer:
    """Start brokers with a management server; takes what `start_server` takes."""

    def start(*options: str, storage_path: Path | None = None) -> ManagementServer:
        server = start_server(*ManagementOptions, *options, storage_path=storage_path)
        return ManagementServer(server)

    return start


@pytest.fixture
def management_server(start_management_server: StartManagementServer) -> ManagementServer:
    """Start one broker with its management server; user `guest` is its administrator."""
    return start_management_server()


@pytest.fixture(scope="module")
def shared_management_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ManagementServer]:
    """Start one broker for all tests of a module; they must leave each other's objects alone."""
    path = tmp_path_factory.mktemp("management") / "data"
    with RunningServer(path, *ManagementOptions) as server:
        server.start()
        yield ManagementServer(server)
    assert not server.faults, "".join(server.messages)
