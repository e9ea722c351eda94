"""A client of server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from tests.limits import HANG_SECONDS
from tests.management.conftest import basic


class Event(NamedTuple):
    """One event: its kind, its identity and its data."""

    name: str
    identity: str
    data: Any


class EventSource:
    """One stream; as a context manager it is closed at the end.

    Args:
        url: Of the server.
        path: Path with query.
        user: Who asks; the password is the name.
        headers: Further headers.
        method: HTTP method.
        body: JSON value that is sent; None sends nothing.
    """

    def __init__(
        self,
        url: str,
        path: str,
        *,
        user: str = "guest",
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        body: object = None,
    ) -> None:
        parts = urlsplit(url)
        self.connection = HTTPConnection(parts.hostname or "", parts.port, timeout=HANG_SECONDS)
        octets = None if body is None else json.dumps(body).encode()
        sent = {"Authorization": basic(user), "Accept": "text/event-stream", **(headers or {})}
        self.connection.request(method, path, octets, sent)
        self.response = self.connection.getresponse()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.response.close()
        self.connection.close()

    @property
    def status(self) -> int:
        return self.response.status

    def until_begun(self) -> None:
        """Return when the server has sent something: it follows."""
        line = self.response.readline()
        assert line == b":\n", line
        assert self.response.readline() == b"\n"

    def events(self) -> Iterator[Event]:
        """Iterate over events; the end of the stream ends it."""
        fields: dict[str, str] = {}
        while line := self.response.readline():
            text = line.decode().rstrip("\n")
            if not text:
                if "data" in fields:
                    data = json.loads(fields["data"])
                    yield Event(fields.get("event", "message"), fields.get("id", ""), data)
                fields = {}
            else:
                name, _, value = text.partition(": ")
                fields[name] = value
