"""CPU and memory of a server process and its children, and the CPU of the machine, from `/proc`."""

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

BUSY_CORES: Final = 0.25
"""If other programs keep more cores busy than this, a figure must not be quoted."""

_PROC: Final = Path("/proc")
_CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")
_RESET_PEAK: Final = "5"
_LOOK_SECONDS: Final = 0.2
_IDLE_CORES: Final = 0.1


@dataclass(slots=True)
class ServerProbe:
    """Watches a process and the children that it has when the probe is created.

    Attributes:
        pid: Id of the process; None for a broker on another machine, whose figures are unknown.
        rss_anon_bytes_max: Largest sum of RssAnon of all calls of `sample`.
        has_children: Whether the children count; if not, only the process itself does.
    """

    pid: int | None
    rss_anon_bytes_max: int | None = None
    has_children: bool = True
    _pids: list[int] = field(default_factory=list)
    _ticks_before: int = 0
    _machine_ticks_before: int = 0
    _start: float = 0.0

    def __post_init__(self) -> None:
        if self.pid is not None:
            self._pids = process_tree(self.pid) if self.has_children else [self.pid]
        for pid in self._pids:
            _try_write(_PROC / str(pid) / "clear_refs", _RESET_PEAK)
        self.sample()
        self.start()

    def start(self) -> None:
        """Count CPU from this moment."""
        self._start = time.monotonic()
        self._ticks_before = self._ticks()
        self._machine_ticks_before = _machine_ticks()

    def cpu_seconds(self) -> float | None:
        """Return the CPU used since `start`, user and system; None if unknown."""
        return (self._ticks() - self._ticks_before) / _CLOCK_TICKS if self._pids else None

    def others_cores(self, generator_cpu_seconds: float) -> float | None:
        """Return how many cores other programs kept busy since `start`.

        Interrupts do not count: most come from the loopback interface, through which server and
        generator communicate.

        Args:
            generator_cpu_seconds: CPU that the generator used since `start`.

        Returns:
            None if the server is not on this machine, or there is no `/proc`.
        """
        elapsed_seconds = time.monotonic() - self._start
        if not self._pids or not elapsed_seconds:
            return None
        ticks = _machine_ticks() - self._machine_ticks_before - (self._ticks() - self._ticks_before)
        return max(0.0, (ticks / _CLOCK_TICKS - generator_cpu_seconds) / elapsed_seconds)

    def peak_rss_bytes(self) -> int | None:
        """Return the sum of VmHWM since the probe was created, if the kernel allows its reset."""
        return self._sum("VmHWM")

    def rss_anon_bytes(self) -> int | None:
        """Return the sum of RssAnon now; mapped files are the kernel's cache and do not count."""
        return self._sum("RssAnon")

    def sample(self) -> None:
        """Read RssAnon, for which the kernel keeps no peak; call it ten times a second."""
        now = self.rss_anon_bytes()
        if now is not None:
            self.rss_anon_bytes_max = max(now, self.rss_anon_bytes_max or 0)

    def _ticks(self) -> int:
        return sum(_cpu_ticks(pid) for pid in self._pids)

    def _sum(self, name: str) -> int | None:
        if not self._pids:
            return None
        return sum(_status_bytes(pid, name) for pid in self._pids)


def process_tree(pid: int) -> list[int]:
    """Return the ids of a process and all its descendants; none without `/proc`."""
    if not (_PROC / str(pid)).exists():
        return []
    children: dict[int, list[int]] = {}
    for each in _PROC.iterdir():
        if each.name.isdigit() and (fields := _stat_fields(int(each.name))):
            children.setdefault(int(fields[1]), []).append(int(each.name))
    tree = [pid]
    for parent in tree:
        tree.extend(children.get(parent, []))
    return tree


def machine_cpu_seconds() -> float:
    """Return the CPU that all cores have used since the machine started; 0 without `/proc`."""
    return _machine_ticks() / _CLOCK_TICKS


def wait_until_quiet(seconds_max: float) -> bool:
    """Wait until the machine uses at most a tenth of a core, and return whether it does.

    After a run, a broker may still be busy with it.

    Args:
        seconds_max: Longest wait.
    """
    deadline = time.monotonic() + seconds_max
    while True:
        before, start = machine_cpu_seconds(), time.monotonic()
        time.sleep(_LOOK_SECONDS)
        cores = (machine_cpu_seconds() - before) / (time.monotonic() - start)
        if cores <= _IDLE_CORES:
            return True
        if time.monotonic() >= deadline:
            return False


def _stat_fields(pid: int) -> list[str]:
    """Return the fields of `/proc/PID/stat` after the name, which may have blanks; [0]: state."""
    text = _try_read(_PROC / str(pid) / "stat")
    return text[text.rfind(")") + 2 :].split() if text else []


def _cpu_ticks(pid: int) -> int:
    fields = _stat_fields(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _machine_ticks() -> int:
    """Return the ticks of all cores: user, nice, system, and stolen by the hypervisor."""
    fields = _try_read(_PROC / "stat").split(maxsplit=9)[1:9]
    return sum(int(fields[i]) for i in (0, 1, 2, 7)) if fields else 0


def _status_bytes(pid: int, name: str) -> int:
    found = re.search(
        rf"^{name}:\s+(\d+) kB$", _try_read(_PROC / str(pid) / "status"), re.MULTILINE
    )
    return int(found[1]) * 1024 if found else 0


def _try_read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # the process has ended


def _try_write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError:
        return  # the process of another user: its peak counts from its start
