"""A broker of ours as the source, and another one that everything moves to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from cli.main import main
from cli.migrate import moves, queue_move
from tests.conftest import StartServer
from tests.management.conftest import ManagementOptions, ManagementServer
from tests.servers import RunningServer


@dataclass
class Outcome:
    """What a run of the command has done.

    Attributes:
        code: Exit code.
        events: Objects that it wrote with `--json`.
        out: All of standard output.
        err: All of standard error.
    """

    code: int
    events: list[dict[str, Any]]
    out: str
    err: str

    def event(self, name: str) -> dict[str, Any]:
        """Return the last event of a name."""
        return [each for each in self.events if each["event"] == name][-1]

    @property
    def differs(self) -> dict[str, list[str]]:
        """Names of what differs by design, by kind."""
        return {each["kind"]: each["names"] for each in self.event("plan")["differs"]}


Migrate = Callable[..., Outcome]


@pytest.fixture
def source(start_server: StartServer) -> ManagementServer:
    """Start the broker that is moved, with its HTTP API."""
    return ManagementServer(start_server(*ManagementOptions))


@pytest.fixture
def target(start_server: StartServer) -> RunningServer:
    """Start the broker that gets everything."""
    return start_server()


def address(source: ManagementServer) -> str:
    """Return the address of a source for AMQP."""
    return f"amqp://guest:guest@127.0.0.1:{source.amqp_port}"


@pytest.fixture
def migrate(
    source: ManagementServer,
    target: RunningServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Migrate:
    """Run the command in this process, until all is moved unless the options say otherwise."""
    monkeypatch.setattr(moves, "ROUND_SECONDS", 0.05)
    monkeypatch.setattr(moves, "LATER_SECONDS", 0.05)
    monkeypatch.setattr(queue_move, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(queue_move, "RETRY_SECONDS", 0.05)

    def run(*options: str, ends: bool = True, as_json: bool = True) -> Outcome:
        places = ("--from", address(source), "--api", source.url)
        ending = ("--until-empty", "--idle", "0", "--ignore-publishers") if ends else ()
        form = ("--json",) if as_json else ()
        storage = ("--storage-path", str(target.storage_path))
        code = main(["migrate", *places, *storage, *ending, *form, *options])
        out, err = capsys.readouterr()
        events = [json.loads(line) for line in out.splitlines()] if as_json else []
        return Outcome(code, events, out, err)

    return run
