"""Requests to an HTTP API, sent with the path and the headers exactly as given."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.limits import HANG_SECONDS


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back.

    Attributes:
        status: Status code.
        headers: Names in small letters; of several with one name the last.
        body: Octets of the body.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:  # noqa: ANN401 - what JSON holds
        """The body as JSON, None where it is empty.

        Raises:
            ValueError: The body is no JSON.
        """
        return json.loads(self.body) if self.body else None


@dataclass(frozen=True, slots=True)
class Api:
    """The HTTP API of a broker on this machine.

    Attributes:
        host: Address of the API and of the broker.
        port: Port of the API.
        amqp_port: Port for AMQP clients.
        user: Who asks, unless a request names another one.
        password: Of `user`.
    """

    host: str
    port: int
    amqp_port: int
    user: str = field(default="guest")
    password: str = field(default="guest")

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        login: tuple[str, str] | bool | None = True,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one request on a connection of its own, and return the answer.

        Args:
            method: HTTP method.
            path: Path with query, sent unchanged; without `/api`.
            body: None sends no body, bytes are sent unchanged, all else as JSON.
            login: User and password; True for those of the API, None for no login.
            headers: Sent besides, and instead of those that this function makes.
        """
        sent = {"content-type": "application/json"} if body is not None else {}
        if login is True:
            login = (self.user, self.password)
        if isinstance(login, tuple):
            token = base64.b64encode(":".join(login).encode()).decode()
            sent["authorization"] = f"Basic {token}"
        sent.update(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=HANG_SECONDS)
        try:
            connection.putrequest(method, f"/api{path}", skip_accept_encoding=True)
            if "content-length" not in sent and (body or method in {"PUT", "POST"}):
                sent["content-length"] = str(len(body or b""))
            for name, text in sent.items():
                connection.putheader(name, text)
            connection.endheaders(body)
            answer = connection.getresponse()
            found = {name.lower(): text for name, text in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:  # noqa: ANN401 - what JSON holds
        """Return the JSON of a GET that must succeed."""
        reply = self.ask("GET", path)
        assert reply.status == 200, (path, reply)
        return reply.value
