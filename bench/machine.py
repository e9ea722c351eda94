"""What a figure was measured on: without it, a figure says nothing."""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Machine:
    """Machine, interpreter and commit.

    Attributes:
        processor: Model of the CPU.
        cores: How many of it this process may use.
        memory_bytes: Memory of the machine.
        system: Kernel and its version.
        python: Version of the interpreter that runs the benchmark, and our server.
        commit: Commit of this repository, with a + when files differ from it; "" without git.
    """

    processor: str
    cores: int
    memory_bytes: int
    system: str
    python: str
    commit: str

    @classmethod
    def inspect(cls) -> Self:
        """Look at the machine that this runs on."""
        return cls(
            processor=_processor(),
            cores=len(os.sched_getaffinity(0)),
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            # Without what a distribution or a host adds to the number.
            system=f"{platform.system()} {platform.release().partition('-')[0]}",
            python=platform.python_version(),
            commit=_commit(),
        )

    def describe(self) -> str:
        """Put it in a line."""
        return (
            f"{self.processor}, {self.cores} cores, {self.memory_bytes / 2**30:.0f} GiB, "
            f"{self.system}, Python {self.python}, commit {self.commit or 'unknown'}"
        )


def _processor() -> str:
    try:
        information = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.+)$", information, re.MULTILINE)
    return found[1] if found else platform.machine()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    repository = Path(__file__).parent.parent
    try:
        done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
