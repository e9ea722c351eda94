"""Ansible's modules for RabbitMQ drive our tools: `make check-tools` runs this."""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from cli.main import main
from tests.servers import REPOSITORY, RunningServer

_PROGRAMS: Final = REPOSITORY / "build" / "ansible" / "bin"
_PLAYBOOK: Final = Path(__file__).with_name("playbook.yml")
_TASKS: Final = 8
_COUNTS: Final = re.compile(r"ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)")


@pytest.mark.timeout(300)
def test_a_playbook_changes_everything_once(tmp_path: Path, server: RunningServer) -> None:
    tools = tmp_path / "tools"
    arguments = ["install-rabbitmq-tools", str(tools), "--storage-path"]
    assert main([*arguments, str(server.storage_path)]) == 0
    assert [play(tools, tmp_path) for _ in range(2)] == [
        (_TASKS, _TASKS - 1, 0, 0),
        (_TASKS, 0, 0, 0),
    ]


def play(tools: Path, directory: Path) -> tuple[int, ...]:
    """Run the playbook; return how many tasks were ok, changed something, and failed."""
    done = subprocess.run(
        [
            str(_PROGRAMS / "ansible-playbook"),
            "-i",
            "localhost,",
            "-e",
            f"ansible_python_interpreter={_PROGRAMS / 'python'}",
            str(_PLAYBOOK),
        ],
        env={
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "ANSIBLE_HOME": str(directory / "home"),
            "ANSIBLE_LOCAL_TEMP": str(directory / "local"),
            "ANSIBLE_REMOTE_TEMP": str(directory / "remote"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    found = _COUNTS.search(done.stdout)
    assert found is not None, done.stdout + done.stderr
    return tuple(map(int, found.groups()))
