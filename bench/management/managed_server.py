"""Our server with its management server, on free ports."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.broker_url import BrokerUrl
from bench.brokers import OURS
from bench.errors import BenchError, BrokerStartError
from bench.our_server import start_our_server
from bench.process_stats import process_tree

_OPTIONS: Final = ("--management-port", "-1", "--metrics-port", "-1")
_MODULE: Final = b"amqp_server.management"
_URLS: Final = re.compile(r"management server started.*urls=[\"']?(http\S+) (http\S+?/metrics)\b")
_START_SECONDS_MAX: Final = 30.0
_LOOK_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class ManagedServer:
    """A broker whose management server serves.

    Attributes:
        amqp_url: Address for AMQP clients.
        broker_pid: Id of the broker's process.
        management_pid: Id of the process of the management server.
        url: Where the API is: `http://HOST:PORT`.
        metrics_url: Where the metrics are: `http://HOST:PORT/metrics`.
    """

    amqp_url: BrokerUrl
    broker_pid: int
    management_pid: int
    url: str
    metrics_url: str

    def check_processes(self) -> None:
        """Raise BenchError if the management server has ended: its figures are of another one."""
        if self.management_pid not in process_tree(self.broker_pid):
            raise BenchError("the management server has ended")


@contextmanager
def start_managed_server(directory: Path, options: tuple[str, ...] = ()) -> Iterator[ManagedServer]:
    """Run our server until the end of the `with`; the broker ends its management server.

    Args:
        directory: Empty directory for data and output.
        options: Further options of the server.

    Raises:
        BrokerStartError: One of the two did not start.
    """
    with start_our_server(OURS, directory, options=(*_OPTIONS, *options)) as broker:
        assert broker.pid is not None
        url, metrics_url = _wait_for_urls(directory / "output.txt")
        pid = _find_management(broker.pid)
        yield ManagedServer(broker.url, broker.pid, pid, url, metrics_url)


def _wait_for_urls(output: Path) -> tuple[str, str]:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while not (found := _URLS.search(text := output.read_text(errors="replace"))):
        if time.monotonic() > deadline:
            raise BrokerStartError(OURS, f"no management server: {text[-2000:].strip()}")
        time.sleep(_LOOK_SECONDS)
    return found[1], found[2]


def _find_management(broker_pid: int) -> int:
    for pid in process_tree(broker_pid):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if _MODULE in words:
            return pid
    raise BrokerStartError(OURS, "the process of the management server is not found")
