"""What runs the files of a page about tests in another language."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.docs.code_blocks import REPOSITORY
from tests.limits import HANG_SECONDS

FILE = re.compile(r"^```(?:js|go|java)\n// (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def write_files(page: str, directory: Path) -> list[str]:
    """Write the files of a page, whose first lines are their names; return the names."""
    files = FILE.findall((REPOSITORY / "docs" / page).read_text())
    for name, code in files:
        (directory / name).write_text(code)
    return [name for name, _ in files]


def need(parts: Mapping[str, object], packages: str) -> None:
    """Fail where the tools that a test drives are missing; `make check-tools` installs them.

    Args:
        parts: What the test needs, by its name: true if it is there.
        packages: Debian's packages that bring it.
    """
    absent = [name for name, found in parts.items() if not found]
    assert not absent, f"{', '.join(absent)} not found; Debian: {packages}"


def environment(directory: Path) -> dict[str, str]:
    """Return environment variables with which a program finds `amqp-server` of this repository.

    Args:
        directory: Existing directory for the program and the files of its brokers.
    """
    program = directory / "bin" / "amqp-server"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m amqp_server "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {
        **os.environ,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
    }


def run(
    *command: str, cwd: Path, env: Mapping[str, str], fails: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, which must be good unless `fails`; return what it printed."""
    ended = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    assert (ended.returncode != 0) == fails, ended.stdout + ended.stderr
    return ended
