"""A command line whose broker is replaced by a note of the configuration it was given."""

import os
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from amqp_server.base.config import ServerConfig
from cli.main import main

Start = Callable[..., ServerConfig]
Refuse = Callable[..., str]


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Take the settings of whoever runs the tests out of the environment."""
    for name in list(os.environ):
        if name.startswith("AMQP_SERVER_"):
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture
def started(clean_environment: pytest.MonkeyPatch) -> list[ServerConfig]:
    """Replace the server; holds the configuration of every start."""
    starts: list[ServerConfig] = []

    def run(config: ServerConfig) -> int:
        starts.append(config)
        return 0

    server = ModuleType("amqp_server.server_process")
    server.run = run  # type: ignore[attr-defined]
    clean_environment.setitem(sys.modules, "amqp_server.server_process", server)
    clean_environment.setattr("cli.main.configure_logging", lambda _level, _log_format: None)
    return starts


@pytest.fixture
def start(started: list[ServerConfig], capsys: pytest.CaptureFixture[str]) -> Start:
    """Start with these arguments; returns the configuration that the server got."""

    def start_with(*arguments: str) -> ServerConfig:
        code = main(arguments)
        assert code == 0, capsys.readouterr().err
        return started.pop()

    return start_with


@pytest.fixture
def refuse(started: list[ServerConfig], capsys: pytest.CaptureFixture[str]) -> Refuse:
    """Run what must be refused; returns the complaint, which must be one line with exit code 2."""

    def refuse_arguments(*arguments: str) -> str:
        code = main(arguments)
        written = capsys.readouterr()
        assert (code, started, written.out) == (2, [], "")
        assert written.err.startswith("amqp-server: error: ")
        assert written.err.count("\n") == 1
        return written.err.removeprefix("amqp-server: error: ").rstrip("\n")

    return refuse_arguments
