"""Cost of an attack for the broker: CPU, writes, memory."""

import time
from dataclasses import dataclass
from pathlib import Path

from bench.process_stats import ServerProbe, process_tree


@dataclass(frozen=True, slots=True)
class ServerCost:
    """CPU, writes and memory of a broker in an interval. Unknown figures are None.

    Attributes:
        seconds: Length of the interval.
        cpu_seconds: CPU of the broker.
        written_bytes: Bytes that the broker wrote to the disk.
        peak_rss_bytes: VmHWM, with mapped files, reset at the start.
        peak_anon_bytes: Largest RssAnon, without mapped files, of ten samples a second.
        other_cores: Cores that other processes kept busy, with those of the benchmark.
    """

    seconds: float
    cpu_seconds: float | None
    written_bytes: int | None
    peak_rss_bytes: int | None
    peak_anon_bytes: int | None
    other_cores: float | None


class ServerWatch:
    """Watches a broker from its creation.

    Args:
        pid: Id of the broker's process; None if it is not on this machine.
    """

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._start = time.monotonic()
        self._written_before = _written_bytes(pid)
        self._server = ServerProbe(pid)

    def sample(self) -> None:
        """Read the memory; call it ten times a second."""
        self._server.sample()

    def cost(self) -> ServerCost:
        """Return the cost since the creation."""
        written = None
        if (now := _written_bytes(self._pid)) is not None and self._written_before is not None:
            written = now - self._written_before
        return ServerCost(
            seconds=time.monotonic() - self._start,
            cpu_seconds=self._server.cpu_seconds(),
            written_bytes=written,
            peak_rss_bytes=self._server.peak_rss_bytes(),
            peak_anon_bytes=self._server.rss_anon_bytes_max,
            other_cores=self._server.others_cores(0.0),
        )


def _written_bytes(pid: int | None) -> int | None:
    """Return the bytes that a process and its children have written to the disk."""
    if pid is None:
        return None
    total = 0
    for each in process_tree(pid):
        try:
            lines = Path(f"/proc/{each}/io").read_text().splitlines()
        except OSError:
            return None
        total += int(dict(line.split(": ") for line in lines)["write_bytes"])
    return total
