"""What the command line prints: commands of every family against a running server."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final

from cli.main import main

COMMANDS: Final = """
vhosts add team
vhosts add team
vhosts list
users add ann --no-password --tags management
users add ann --no-password
users list
users list --json
permissions set ann --vhost team --configure ^a --write .* --read .*
permissions list
permissions list --json
topic-permissions set ann amq.topic --vhost team --write ^a --read .*
topic-permissions list
policies set short ^tmp {"max-length":5} --vhost team
policies set wrong ( {"max-length":5} --vhost team
policies set wrong a {"max-lengths":5} --vhost team
policies list
policies list --json
operator-policies set short ^tmp {"max-length":9} --vhost team
operator-policies list
limits set --vhost team max-queues=7
limits set --vhost team max-quues=7
limits list
queues pause classic
queues resume classic
queues unacked classic
stats
stats --json
stats --queue classic
browse --queue classic
browse --queue classic --json
browse --queue nowhere
offsets list
offsets show --queue stream --group billing
offsets commit --queue stream --group billing --offset 1
offsets list --json
replay --queue stream --from first --to single
replay --queue nowhere --from first
shards create parts --shards 2
shards list
shards delete parts --yes
config show
config show --json
checkpoint
status
definitions export -
definitions import nowhere.json
users delete nobody --yes
policies clear nothing
nothing
stats --wrong
vhosts delete team --yes
users delete ann --yes
"""
"""One a line; the server has the objects of `tests.frozen.amqp_answers`."""

COMMANDS_AFTER: Final = """
stats
vhosts list
verify
inspect
audit --event exchange.*
audit --event exchange.* --json
recover
"""
"""The same without a server."""


def printed(commands: str, storage_path: Path) -> Iterator[str]:
    """Run commands; yield each with its exit code and what it printed."""
    with _environment(storage_path):
        for line in filter(None, commands.splitlines()):
            # Some commands write octets.
            octets = io.BytesIO()
            output = io.TextIOWrapper(octets, encoding="utf-8", write_through=True)
            with redirect_stdout(output), redirect_stderr(output):
                code = main(_words(line))
            yield f"$ amqp-server {line}\n{octets.getvalue().decode()}[{code}]\n"


def _words(line: str) -> list[str]:
    return shlex.split(line.replace("\\", "\\\\").replace('"', '\\"'))


@contextmanager
def _environment(storage_path: Path) -> Iterator[None]:
    kept = {name: text for name, text in os.environ.items() if name.startswith("AMQP_SERVER_")}
    for name in kept:
        del os.environ[name]
    os.environ["AMQP_SERVER_STORAGE_PATH"] = str(storage_path)
    try:
        yield
    finally:
        del os.environ["AMQP_SERVER_STORAGE_PATH"]
        os.environ.update(kept)
