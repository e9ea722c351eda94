"""Answers of the source's HTTP API of RabbitMQ: definitions, queues and publishers.

Another broker answers, so nothing of an answer is believed before it is checked: its size, how long
it takes, that it is JSON, and the type of each value that is used.
"""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit

import orjson

from cli.migrate.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER_BYTES_MAX: Final = 32 << 20
"""Largest answer; definitions may have as much as a file of them."""
SECONDS_MAX: Final = 120.0
"""Time for one answer: RabbitMQ takes a minute for the definitions of 100,000 queues."""
SILENCE_SECONDS_MAX: Final = 30.0
"""Time in which nothing at all of an answer comes."""
PAGE_ROWS: Final = 500
PAGES_MAX: Final = 400
"""Pages of a list: 200,000 queues or channels."""
_PART_BYTES: Final = 1 << 16
_PORTS: Final = {"http": 15672, "https": 15671}
_QUEUE_COLUMNS: Final = (
    "vhost,name,type,durable,auto_delete,exclusive,arguments,messages,messages_ready,"
    "messages_unacknowledged,message_bytes,consumers"
)
_CHANNEL_COLUMNS: Final = "connection_details.name,user,message_stats.publish"


@dataclass(frozen=True, slots=True)
class SourceQueue:
    """A queue as the source describes it; counts are up to 5 seconds old.

    Attributes:
        vhost: Its virtual host.
        name: Its name.
        type: `classic`, `quorum`, `stream`, or what else the source says.
        is_durable: Whether it survives a restart.
        is_auto_delete: Whether it ends with its last consumer.
        is_exclusive: Whether it belongs to one connection.
        messages: Messages, those that consumers hold among them.
        unacked: Messages that consumers hold.
        message_bytes: Octets of their bodies.
        consumers: Number of consumers.
    """

    vhost: str
    name: str
    type: str
    is_durable: bool
    is_auto_delete: bool
    is_exclusive: bool
    messages: int
    unacked: int
    message_bytes: int
    consumers: int


@dataclass(frozen=True, slots=True)
class SourceApi:
    """The HTTP API of the source. Each request has a connection of its own, and blocks.

    Attributes:
        scheme: `http` or `https`.
        host: Name or address.
        port: TCP port.
        prefix: Path before `/api`, mostly empty.
        user: User name.
        password: Password.
        cacertfile: File with the certificates of those who may sign the server's; empty: those of
            the system.
    """

    scheme: str
    host: str
    port: int
    prefix: str
    user: str
    password: str
    cacertfile: str = ""

    @classmethod
    def parse(cls, text: str, user: str, password: str, cacertfile: str = "") -> SourceApi:
        """Return the API at a URL.

        Args:
            text: `http://user:password@host:15672`, user and password may be missing.
            user: User if the URL has none.
            password: Password if the URL has none.
            cacertfile: As the attribute.

        Raises:
            ValueError: It is no URL; the text is without the password.
        """
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise ValueError("not a URL: write http://user:password@host:15672") from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError("not a URL: write http://user:password@host:15672")
        if any(not each.isprintable() or each.isspace() for each in text):
            raise ValueError("a URL has no spaces or control characters")
        if parts.query or parts.fragment:
            raise ValueError("a URL of the HTTP API has nothing behind ? or #")
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
        prefix = parts.path.rstrip("/").removesuffix("/api")
        return cls(
            parts.scheme,
            parts.hostname,
            port or _PORTS[parts.scheme],
            prefix,
            user,
            password,
            cacertfile,
        )

    @property
    def shown(self) -> str:
        """The URL, without the password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"

    def definitions(self) -> bytes:
        """Return the definitions of the source, unchecked.

        Raises:
            SourceError: The API did not answer, or refused.
        """
        return self._get("/api/definitions")

    def queues(self) -> list[SourceQueue]:
        """Return all queues, exclusive ones among them.

        Raises:
            SourceError: The API did not answer, refused, or what it says is no list of queues.
        """
        return [_queue(row) for row in self._rows("queues", _QUEUE_COLUMNS)]

    def publishers(self) -> list[str]:
        """Return the connections that have a channel which has published, by name.

        Raises:
            SourceError: As for `queues`.
        """
        names = set()
        for row in self._rows("channels", _CHANNEL_COLUMNS):
            stats = row.get("message_stats")
            if isinstance(stats, dict) and _number(stats.get("publish")):
                details = row.get("connection_details")
                name = details.get("name") if isinstance(details, dict) else None
                names.add(name if isinstance(name, str) else "a connection without a name")
        return sorted(names)

    def _rows(self, kind: str, columns: str) -> Iterator[dict[str, Any]]:
        """Yield the objects of a list, page by page."""
        for page in range(1, PAGES_MAX + 1):
            path = f"/api/{kind}?page={page}&page_size={PAGE_ROWS}&columns={quote(columns)}"
            answer = self._json(path)
            items = answer.get("items") if isinstance(answer, dict) else None
            if not isinstance(items, list):
                raise SourceError(f"{self.shown}/api/{kind}: the answer is no page of a list")
            for row in items:
                if not isinstance(row, dict):
                    raise SourceError(f"{self.shown}/api/{kind}: a row is {row!r:.50}, no object")
                yield row
            count = answer.get("page_count")
            if not isinstance(count, int) or page >= count:
                return
        raise SourceError(f"{self.shown}/api/{kind}: more than {PAGES_MAX * PAGE_ROWS} rows")

    def _json(self, path: str) -> Any:  # noqa: ANN401 - checked by the caller
        content = self._get(path)
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as error:
            where = f"{self.shown}{path.partition('?')[0]}"
            raise SourceError(f"{where}: the answer is not JSON: {error}") from None

    def _get(self, path: str) -> bytes:
        """Return the body of an answer.

        Raises:
            SourceError: There is none; the text names the remedy.
        """
        connection = self._connection()
        pair = f"{self.user}:{self.password}".encode()
        headers = {
            "Authorization": "Basic " + base64.b64encode(pair).decode(),
            "Accept": "application/json",
        }
        try:
            connection.connect()
            with _time_limit(connection.sock):
                connection.request("GET", self.prefix + path, headers=headers)
                with connection.getresponse() as response:
                    if response.status != 200:
                        raise SourceError(self._refusal(path, response.status))
                    return self._body(path, response)
        except (OSError, HTTPException, UnicodeError) as error:
            raise SourceError(self._unreachable(error)) from error
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        if self.scheme == "http":
            return HTTPConnection(self.host, self.port, timeout=SILENCE_SECONDS_MAX)
        try:
            context = ssl.create_default_context(cafile=self.cacertfile or None)
        except OSError as error:
            raise SourceError(f"{self.cacertfile}: {error.strerror or error}") from error
        return HTTPSConnection(self.host, self.port, timeout=SILENCE_SECONDS_MAX, context=context)

    def _body(self, path: str, response: HTTPResponse) -> bytes:
        parts: list[bytes] = []
        size = 0
        while part := response.read1(_PART_BYTES):
            parts.append(part)
            size += len(part)
            if size > ANSWER_BYTES_MAX:
                limit = f"{ANSWER_BYTES_MAX >> 20} MiB"
                raise SourceError(f"{self.shown}{path}: the answer is larger than {limit}")
        if response.length:
            raise SourceError(f"{self.shown}{path}: the answer was cut short")
        return b"".join(parts)

    def _refusal(self, path: str, status: int) -> str:
        if status == 401:
            return (
                f"{self.shown}: user '{self.user}' may not use the HTTP API: the password is "
                "wrong, or the user has no tag 'administrator' (rabbitmqctl set_user_tags)"
            )
        if status == 403:
            return f"{self.shown}{path}: user '{self.user}' needs the tag 'administrator'"
        return f"{self.shown}{path}: answered with status {status}: is it RabbitMQ's HTTP API?"

    def _unreachable(self, error: Exception) -> str:
        if isinstance(error, ConnectionRefusedError):
            return (
                f"{self.shown}: nothing listens there: is the management plugin on? "
                "(rabbitmq-plugins enable rabbitmq_management, on the source)"
            )
        if isinstance(error, TimeoutError):
            return f"{self.shown}: no answer in {SILENCE_SECONDS_MAX:.0f} s"
        if isinstance(error, OSError):
            return f"{self.shown}: {error.strerror or error}"
        return f"{self.shown}: no HTTP server answers there ({type(error).__name__})"


@contextmanager
def _time_limit(connected: socket.socket) -> Iterator[None]:
    """End a conversation that takes too long, whatever the peer sends how slowly."""
    timer = threading.Timer(SECONDS_MAX, partial(_end, connected))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _queue(row: dict[str, Any]) -> SourceQueue:
    name, vhost = row.get("name"), row.get("vhost")
    if not isinstance(name, str) or not isinstance(vhost, str):
        raise SourceError(f"a queue of the source has the name {name!r:.50} in {vhost!r:.50}")
    kind = row.get("type")
    return SourceQueue(
        vhost=vhost,
        name=name,
        type=kind if isinstance(kind, str) else "classic",
        is_durable=row.get("durable") is not False,
        is_auto_delete=row.get("auto_delete") is True,
        is_exclusive=row.get("exclusive") is True,
        messages=_number(row.get("messages")),
        unacked=_number(row.get("messages_unacknowledged")),
        message_bytes=_number(row.get("message_bytes")),
        consumers=_number(row.get("consumers")),
    )


def _number(value: object) -> int:
    """Return a count; what is none is 0: RabbitMQ leaves counts out of young queues."""
    return value if type(value) is int and value > 0 else 0
