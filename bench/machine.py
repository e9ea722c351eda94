"""The machine, the file system and the commit of a figure, without which it is meaningless."""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
"""File systems in memory, where fsync costs nothing."""

_MOUNTS: Final = Path("/proc/self/mounts")


@dataclass(frozen=True, slots=True)
class Machine:
    """Machine, interpreter and commit.

    Attributes:
        processor: Model of the CPU.
        cores: Cores that this process may use.
        memory_bytes: Memory of the machine.
        system: Name and version of the kernel.
        python: Version of the interpreter that runs the benchmark and our server.
        commit: Commit of this repository, with a + if files differ from it; "" without git.
    """

    processor: str
    cores: int
    memory_bytes: int
    system: str
    python: str
    commit: str

    @classmethod
    def inspect(cls) -> Self:
        """Return the machine that this process runs on."""
        return cls(
            processor=_processor(),
            cores=len(os.sched_getaffinity(0)),
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            # Without the suffix that a distribution or a host adds to the number.
            system=f"{platform.system()} {platform.release().partition('-')[0]}",
            python=platform.python_version(),
            commit=_commit(),
        )

    def describe(self) -> str:
        """Return all attributes in one line."""
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


def file_system_of(directory: Path) -> str:
    """Return the type of a directory's file system, such as "ext4"; "unknown" without `/proc`."""
    try:
        mounts = [line.split() for line in _MOUNTS.read_text().splitlines()]
    except OSError:
        return "unknown"
    at = directory.resolve()
    around = [fields for fields in mounts if at.is_relative_to(os.fsdecode(fields[1]))]
    # Of two mounts at the same place, the later one hides the earlier.
    return max(enumerate(around), key=lambda each: (len(each[1][1]), each[0]))[1][2]
