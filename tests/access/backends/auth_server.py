"""A real HTTP server that answers questions of a back end as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from tests.limits import HANG_SECONDS

Answers = Callable[[str, dict[str, str]], str | bytes | tuple[int, bytes]]


def allow_all(path: str, fields: dict[str, str]) -> str:
    """Let everybody in and allow everything."""
    return "allow"


class AuthServer:
    """An HTTP server on a free port of loopback; as a context manager it is stopped at the end.

    Args:
        answers: Called with the path and the fields of each question, in a thread of its own;
            returns the body, perhaps with a status.

    Attributes:
        answers: As given; may be changed.
        asked: Method, path and fields of each question so far.
        is_open: While it is not set, questions get no answer.
    """

    def __init__(self, answers: Answers = allow_all) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.is_open = threading.Event()
        self.is_open.set()
        self._changed = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(urlsplit(self.path).query)

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                self._answer(self.rfile.read(length).decode("ascii"))

            def _answer(self, form: str) -> None:
                path = urlsplit(self.path).path
                fields = dict(parse_qsl(form, keep_blank_values=True, strict_parsing=bool(form)))
                with outer._changed:
                    outer.asked.append((self.command, path, fields))
                    outer._changed.notify_all()
                outer.is_open.wait(HANG_SECONDS)
                made = outer.answers(path, fields)
                status, body = made if isinstance(made, tuple) else (200, made)
                octets = body.encode() if isinstance(body, str) else body
                self.send_response(status)
                if status in (301, 302, 307):
                    self.send_header("location", octets.decode())
                self.send_header("content-length", str(len(octets)))
                self.end_headers()
                self.wfile.write(octets)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def settings(self) -> dict[str, object]:
        """Fields of `ServerConfig` with which a server asks this one, after its own users."""
        paths = {
            f"auth_http_{each}_path": f"{self.url}/{each}"
            for each in ("user", "vhost", "resource", "topic")
        }
        return {"auth_backends": "internal,http", "auth_http_method": "post", **paths}

    def wait_for_question(self, path: str, count: int = 1) -> None:
        """Return when a path has been asked so often."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.count(path) >= count, HANG_SECONDS)

    def count(self, path: str) -> int:
        """Return how often a path has been asked."""
        return sum(asked == path for _, asked, _ in self.asked)

    def questions(self, path: str) -> list[dict[str, str]]:
        """Return the fields of the questions to a path."""
        return [fields for _, asked, fields in self.asked if asked == path]

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop; what waits gets its answer."""
        self.stop()

    def stop(self) -> None:
        """Stop; a second call does nothing."""
        self.is_open.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
