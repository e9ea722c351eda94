"""Ansible's modules for RabbitMQ drive our tools and our API: `make check-tools` runs this."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from cli.main import main
from cli.rabbitmq_tools.asking import Server
from tests.servers import REPOSITORY, RunningServer

_PROGRAMS: Final = REPOSITORY / "build" / "ansible" / "bin"
_MODULES: Final = "lib/python*/site-packages/ansible_collections/community/rabbitmq/plugins/modules"
_HERE: Final = Path(__file__).parent
_COUNTS: Final = re.compile(
    r"ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)\s+skipped=(\d+)"
)
_TASK: Final = re.compile(r"^    - (community\.rabbitmq\.\w+):", re.MULTILINE)
_API_PORT: Final = re.compile(r"urls='http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Play:
    """Runs playbooks against a server.

    Attributes:
        directory: For files of Ansible's.
        tools: Directory of our tools.
        api_port: Port of the HTTP API.
        amqp_port: Port of AMQP.
    """

    directory: Path
    tools: Path
    api_port: str
    amqp_port: int

    def __call__(self, playbook: str, *options: str) -> tuple[int, ...]:
        """Return how many tasks were ok, changed, unreachable, failed and skipped."""
        done = subprocess.run(
            [
                str(_PROGRAMS / "ansible-playbook"),
                *("-i", "localhost,", *options),
                *("-e", f"ansible_python_interpreter={_PROGRAMS / 'python'}"),
                *("-e", f"api_port={self.api_port} amqp_port={self.amqp_port}"),
                str(_HERE / playbook),
            ],
            env={
                **os.environ,
                "PATH": f"{self.tools}:{os.environ['PATH']}",
                "ANSIBLE_HOME": str(self.directory / "home"),
                "ANSIBLE_LOCAL_TEMP": str(self.directory / "local"),
                "ANSIBLE_REMOTE_TEMP": str(self.directory / "remote"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        found = _COUNTS.search(done.stdout)
        assert found is not None, done.stdout + done.stderr
        assert found[4] == "0", done.stdout
        return tuple(map(int, found.groups()))


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """Start a server with its API, and install the tools."""
    options = ("--management-port", "-1", "--metrics-port", "0")
    server = RunningServer(tmp_path / "data", *options).start()
    try:
        found = _API_PORT.search(server.wait_for_message("management server started"))
        assert found is not None
        tools = tmp_path / "tools"
        arguments = ["install-rabbitmq-tools", str(tools), "--storage-path"]
        assert main([*arguments, str(server.storage_path)]) == 0
        yield Play(tmp_path, tools, found[1], server.port)
    finally:
        server.kill()


def _tasks(playbook: str) -> list[str]:
    return _TASK.findall((_HERE / playbook).read_text())


def test_every_module_of_the_collection_is_in_a_playbook() -> None:
    there = {path.stem for path in _PROGRAMS.parent.glob(f"{_MODULES}/rabbitmq_*.py")}
    assert len(there) > 10
    used = {name for file in ("playbook.yml", "deeds.yml") for name in _tasks(file)}
    assert {name.rpartition(".")[2] for name in used} == there


@pytest.mark.timeout(600)
def test_playbooks_change_everything_once(play: Play) -> None:
    made, removed = len(_tasks("playbook.yml")), len(_tasks("removal.yml"))
    # Plugin and flag are on already.
    changing = made - 2
    assert play("playbook.yml")[:2] == (made, changing)
    assert play("playbook.yml")[:2] == (made, 0)
    # What is only checked is not done.
    checked = play("removal.yml", "--check")
    assert checked[1] > 0
    assert play("playbook.yml")[:2] == (made, 0)
    assert play("removal.yml")[:2] == (removed, removed)
    assert play("removal.yml")[:2] == (removed, 0)
    assert play("end.yml")[:2] == (2, 2)
    assert play("end.yml")[:2] == (2, 0)


@pytest.mark.timeout(600)
def test_messages_and_maintenance(play: Play) -> None:
    tasks = len(_tasks("deeds.yml"))
    # A second `drain` and a second `revive` change nothing.
    assert play("deeds.yml")[:2] == (tasks, tasks - 2)
    server = Server(str(play.directory / "data"), "node", 10)
    try:
        assert server.ask("probe")["are_listeners_suspended"] is False
        found = server.ask("queues.stats", vhost="/", queue="published", after="", limit=1)
        assert found["queues"][0]["ready"] == 1
    finally:
        server.close()
