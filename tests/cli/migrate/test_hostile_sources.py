"""Sources that lie, break off, or are none: one line, and nothing has changed."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from cli.migrate import source_api
from cli.migrate.choice import Choice
from cli.migrate.definitions import read_source
from cli.migrate.errors import SourceError
from cli.migrate.source_api import SourceApi
from tests.cli.migrate.conftest import Migrate
from tests.conftest import StartServer
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def api_that(answer: Answer) -> Iterator[SourceApi]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the base
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield SourceApi.parse(f"http://127.0.0.1:{server.server_port}", "guest", "secret")
        finally:
            server.shutdown()
            thread.join()


def gives(body: bytes, status: int = 200, length: int | None = None) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def gives_json(value: object) -> Answer:
    return gives(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (gives(b"", 401), "the password is wrong"),
        (gives(b"", 403), "needs the tag 'administrator'"),
        (gives(b"", 302), "status 302"),
        (gives(b"[" * 200), "not JSON"),
        (gives(b'{"items": ['), "not JSON"),
        (gives(b"{}", length=9), "cut short"),
        (gives_json([]), "no page of a list"),
        (gives_json({"items": 5}), "no page of a list"),
        (gives_json({"items": [5]}), "no object"),
        (gives_json({"items": [{"name": 5, "vhost": "/"}]}), "has the name 5"),
        (gives_json({"items": [{"name": "q", "vhost": None}]}), "in None"),
    ],
)
def test_an_api_that_lies_is_refused_with_a_reason(answer: Answer, text: str) -> None:
    with api_that(answer) as api, pytest.raises(SourceError) as refused:
        api.queues()
    assert text in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "row", [{"messages": "many"}, {"messages": -5}, {"messages": True}, {"type": 5}, {}]
)
def test_counts_that_are_none_are_taken_as_0(row: dict[str, Any]) -> None:
    answer = gives_json({"items": [{"name": "q", "vhost": "/", **row}], "page_count": 1})
    with api_that(answer) as api:
        (queue,) = api.queues()
    assert (queue.messages, queue.type, queue.is_durable) == (0, "classic", True)


def test_pages_without_end_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_api, "PAGES_MAX", 3)
    answer = gives_json({"items": [], "page_count": 1 << 60})
    with api_that(answer) as api, pytest.raises(SourceError, match="more than 1500 rows"):
        api.publishers()


def test_an_answer_without_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_api, "ANSWER_BYTES_MAX", 1 << 20)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(bytes(1 << 16))
        except ConnectionError:
            return

    with api_that(answer) as api, pytest.raises(SourceError, match="larger than 1 MiB"):
        api.definitions()


def test_an_answer_that_never_comes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_api, "SECONDS_MAX", 0.2)
    released = threading.Event()

    def answer(_handler: BaseHTTPRequestHandler) -> None:
        released.wait(HANG_SECONDS)

    with api_that(answer) as api:
        with pytest.raises(SourceError):
            api.definitions()
        released.set()


def test_nothing_that_listens_is_the_plugin_that_is_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    api = SourceApi.parse(f"http://127.0.0.1:{port}", "guest", "guest")
    with pytest.raises(SourceError, match="rabbitmq-plugins enable rabbitmq_management"):
        api.definitions()


@pytest.mark.parametrize(
    "definitions",
    [
        b"[]",
        b"{",
        b'{"queues": 5}',
        b'{"queues": [5]}',
        b'{"vhosts": [], "users": [{"name": "u", "password": 5}]}',
    ],
)
def test_definitions_that_are_none_are_refused(definitions: bytes, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_bytes(definitions)
    with pytest.raises(SourceError) as refused:
        read_source(None, file, Choice(frozenset(), None, None))
    assert len(str(refused.value).splitlines()) == 1


def test_entries_that_cannot_be_taken_are_told_and_the_rest_comes(
    migrate: Migrate, tmp_path: Path
) -> None:
    wrong: list[dict[str, Any]] = [
        {"name": "bad", "vhost": "/", "durable": True, "arguments": {"x-max-length": -5}},
        {"name": 5, "vhost": "/"},
        {"name": "nowhere", "vhost": "none"},
        {"name": "q", "vhost": "/", "durable": True, "arguments": {"x-unknown": 1}},
    ]
    policy = {"vhost": "/", "name": "p", "pattern": "(", "definition": {"max-length": 1}}
    file = tmp_path / "definitions.json"
    content = {"vhosts": [{"name": "/"}], "queues": wrong, "policies": [policy]}
    file.write_text(json.dumps(content))
    done = migrate("--definitions", str(file), "--dry-run")
    plan = done.event("plan")
    assert [each["queue"] for each in plan["queues"]] == ["q"]
    refused = [each["text"] for each in plan["differs"] if each["kind"] == "refused"]
    assert len(refused) == 4
    assert any("policy 'p' in vhost '/'" in line for line in refused)
    assert done.differs["unknown-argument"] == ["q"]


@pytest.mark.parametrize(
    "greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(8), b"AMQP\0\0\x09\x01"]
)
def test_a_source_that_speaks_no_amqp_is_refused(
    target: RunningServer, capsys: pytest.CaptureFixture[str], greeting: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connected, _ = listening.accept()
            with connected:
                connected.recv(8)
                connected.sendall(greeting)

        thread = threading.Thread(target=answer)
        thread.start()
        uri = f"amqp://u:secret@127.0.0.1:{listening.getsockname()[1]}"
        options = ("--storage-path", str(target.storage_path), "--api", "http://127.0.0.1:1")
        assert main(["migrate", "--from", uri, *options]) == 2
        thread.join()
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "secret" not in err


def test_a_wrong_password_ends_the_command(
    start_server: StartServer, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = start_server(), start_server()
    uri = f"amqp://guest:wrong@127.0.0.1:{source.port}"
    assert main(["migrate", "--from", uri, "--storage-path", str(target.storage_path)]) == 2
    assert "403" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ("--from", "http://host"),
        ("--from", "amqp://"),
        ("--from", "amqp://h", "--api", "amqp://h"),
        ("--from", "amqp://h", "--queue", "("),
        ("--from", "amqp://h", "--parallel", "0"),
        (),
    ],
)
def test_wrong_options_are_2(options: tuple[str, ...], tmp_path: Path) -> None:
    assert main(["migrate", "--storage-path", str(tmp_path), *options]) == 2
