"""The tools write what RabbitMQ's tools write, and end with the same exit codes."""

import io
import os
from contextlib import redirect_stderr, redirect_stdout

import pytest

from cli.rabbitmq_tools.main import run
from tests.cli.rabbitmq_tools.conversation import Exchange, exchange, told
from tests.servers import RunningServer

NODE = f"rabbit@{os.uname().nodename.partition('.')[0]}"


def say(storage_path: str, words: tuple[str, ...]) -> Exchange:
    """Run one command in this process: to start so many takes longer than what they do."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = run(words[0], storage_path, words[1:])
    lines = [text.getvalue().removesuffix("\n").split("\n") for text in (output, errors)]
    return exchange(words, lines[0], lines[1], code, NODE)


def test_the_tools_write_what_those_of_rabbitmq_write(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AMQP_SERVER_STORAGE_PATH", raising=False)
    path = str(server.storage_path)
    with told(server.port, lambda words: say(path, words)) as differing:
        assert differing == []
