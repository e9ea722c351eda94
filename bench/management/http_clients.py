"""The process of the HTTP clients: a tool that lists all queues, Prometheus, and open pages."""

import base64
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlsplit

from bench.errors import BenchError
from bench.management.page_requests import (
    EVERY_SECONDS,
    OVERVIEW_PAGE,
    QUEUES_PAGE,
    SCRAPE,
    WHOLE_LIST,
    Poll,
)
from bench.worker import StartLine

ANSWER_SECONDS_MAX: Final = 30
_USER: Final = "guest"
_PASSWORD: Final = "guest"
_BASIC: Final = base64.b64encode(f"{_USER}:{_PASSWORD}".encode()).decode()


@dataclass(frozen=True, slots=True)
class HttpOrder:
    """Instructions for the HTTP clients.

    Attributes:
        url: Where the API is: `http://HOST:PORT`.
        metrics_url: Where the metrics are: `http://HOST:PORT/metrics`.
        pages: Open pages; every other one shows the overview, the rest the list of queues.
        seconds: How long to ask.
    """

    url: str
    metrics_url: str
    pages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class HttpResult:
    """Answers to the HTTP clients; all had the status 200.

    Attributes:
        latencies_ns: Times from the request to the last byte of its answer, by kind of request.
        cpu_seconds: CPU that the process used.
    """

    latencies_ns: dict[str, list[int]]
    cpu_seconds: float


@dataclass(slots=True)
class _Asker:
    """One path, asked over a connection of its own as a browser does with several at a time."""

    url: str
    poll: Poll
    headers: Mapping[str, str]
    delay_seconds: float
    latencies_ns: list[int] = field(default_factory=list)

    def ask_until(self, end_ns: int, stopped: threading.Event) -> None:
        """Ask until a time of CLOCK_MONOTONIC, or until another client has failed."""
        connection = _connect(self.url)
        due_ns = time.monotonic_ns() + int(self.delay_seconds * 1e9)
        try:
            while due_ns < end_ns:
                if stopped.wait(max(0, due_ns - time.monotonic_ns()) / 1e9):
                    return
                began_ns = time.monotonic_ns()
                request(connection, "GET", self.poll.path, self.headers)
                ended_ns = time.monotonic_ns()
                self.latencies_ns.append(ended_ns - began_ns)
                if not self.poll.every_seconds:
                    return
                every_ns = int(self.poll.every_seconds * 1e9)
                if self.poll.share:
                    due_ns = ended_ns + max(every_ns, (ended_ns - began_ns) * self.poll.share)
                else:
                    due_ns = max(due_ns + every_ns, ended_ns)
        finally:
            connection.close()


def ask_http(start_line: StartLine, order: HttpOrder) -> HttpResult:
    """Ask in a process of its own until the time is over.

    Raises:
        BenchError: An answer was missing, or had another status than 200.
    """
    gzip = {"accept-encoding": "gzip"}
    askers = [
        _Asker(order.url, WHOLE_LIST, gzip | {"authorization": f"Basic {_BASIC}"}, 0.0),
        _Asker(order.metrics_url, SCRAPE, gzip, 0.0),
    ]
    for number in range(order.pages):
        headers = gzip | {"accept": "application/json", "cookie": _begin_session(order.url)}
        # Pages are not opened at the same moment.
        delay = min(EVERY_SECONDS, order.seconds) * number / order.pages
        polls = QUEUES_PAGE if number % 2 else OVERVIEW_PAGE
        askers += [_Asker(order.url, poll, headers, delay) for poll in polls]
    start_line.wait()
    _ask_all(askers, time.monotonic_ns() + int(order.seconds * 1e9))
    latencies_ns: dict[str, list[int]] = {}
    for asker in askers:
        latencies_ns.setdefault(asker.poll.kind, []).extend(asker.latencies_ns)
    return HttpResult(latencies_ns, start_line.cpu_seconds())


def request(
    connection: HTTPConnection,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
) -> Mapping[str, str]:
    """Send a request, read all of its answer, and return the headers, by name in lower case.

    Raises:
        BenchError: No answer came, or one with another status than 200.
    """
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        octets = answer.read()
    except (OSError, HTTPException) as error:
        raise BenchError(f"{method} {path}: {error!r}") from error
    if answer.status != 200:
        raise BenchError(f"{method} {path}: {answer.status} {octets[:200]!r}")
    return {name.lower(): value for name, value in answer.getheaders()}


def _ask_all(askers: list[_Asker], end_ns: int) -> None:
    stopped = threading.Event()
    failures: list[BaseException] = []

    def ask(asker: _Asker) -> None:
        try:
            asker.ask_until(end_ns, stopped)
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)
            stopped.set()

    threads = [threading.Thread(target=ask, args=(asker,), daemon=True) for asker in askers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _begin_session(url: str) -> str:
    """Log in as the page does, and return the cookie."""
    connection = _connect(url)
    try:
        body = json.dumps({"username": _USER, "password": _PASSWORD}).encode()
        headers = request(
            connection, "POST", "/session", {"content-type": "application/json"}, body
        )
    finally:
        connection.close()
    return headers["set-cookie"].partition(";")[0]


def _connect(url: str) -> HTTPConnection:
    parts = urlsplit(url)
    return HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_SECONDS_MAX)
