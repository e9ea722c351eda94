"""glibc keeps freed memory for the next message, within a bound and while there is work."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amqp_server.upkeep.allocator import KEPT_BYTES_MAX, QUIET_SHARE, QuietTimes
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.limits import HANG_SECONDS

MIB = 1024 * 1024
ROUNDS = 100
BODY = bytes(MIB)
IN_FLIGHT = 8
PAGES = MIB // os.sysconf("SC_PAGE_SIZE")
PROBE = f"""
import json, os, resource, sys
from amqp_server.upkeep.allocator import keep_freed_memory, return_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1])

kept = keep_freed_memory(int(sys.argv[1]), os.environ)
before = faults()
for _ in range({ROUNDS}):
    parts = [bytes(128 * 1024) for _ in range(8)]
    whole = b"".join(parts)
    del parts, whole
made = faults() - before
with_kept = resident()
return_freed_memory()
print(json.dumps([kept, made, with_kept - resident()]))
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"),
    reason="the C library is not glibc",
)


def probe(available_bytes: int, **variables: str) -> tuple[int, int, int]:
    """Return bytes kept, page faults of 100 messages of 1 MiB, and pages returned at last."""
    printed = subprocess.run(
        [sys.executable, "-c", PROBE, str(available_bytes)],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
        env={**os.environ, **variables},
    )
    kept, faults, returned = json.loads(printed.stdout)
    return kept, faults, returned


def test_what_is_freed_serves_the_next_message_and_is_returned_on_request() -> None:
    kept, faults, returned = probe(1 << 40)
    assert kept == KEPT_BYTES_MAX
    # Only the first message's pages are new.
    assert faults < 5 * PAGES
    assert returned > PAGES


def test_a_small_machine_keeps_a_small_part_of_its_memory() -> None:
    assert probe(512 * MIB)[0] == 16 * MIB


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MALLOC_TRIM_THRESHOLD_", "131072"),
        ("MALLOC_MMAP_THRESHOLD_", "131072"),
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=131072"),
    ],
)
def test_what_the_user_has_set_counts(name: str, value: str) -> None:
    kept, faults, _ = probe(1 << 40, **{name: value})
    assert kept == 0
    assert faults > ROUNDS * PAGES // 2


def test_tunables_of_something_else_change_nothing() -> None:
    assert probe(1 << 40, GLIBC_TUNABLES="glibc.cpu.x86_ibt=off")[0] == KEPT_BYTES_MAX


def test_a_server_uses_the_same_memory_for_the_next_large_message(
    start_server: StartServer,
) -> None:
    server = start_server()

    def faults() -> int:
        stat = Path(f"/proc/{server.pid}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[7])

    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("large")
        made = []
        for _ in range(8):
            before = faults()
            for _ in range(IN_FLIGHT):
                client.publish(BODY, "large")
            client.expect_confirmed()
            made.append(faults() - before)
        assert sum(made[4:]) < 4 * IN_FLIGHT * PAGES // 4


class Process:
    """A process whose time passes when the test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.cpu_seconds = 7.0
        self.returns = 0
        self.quiet_times = QuietTimes(
            lambda: self.seconds, lambda: self.cpu_seconds, self.give_back
        )

    def give_back(self) -> None:
        self.returns += 1
        self.run(0.5)

    def run(self, cpu_seconds: float) -> None:
        self.seconds += cpu_seconds
        self.cpu_seconds += cpu_seconds

    def look_after(self, seconds: float, share: float) -> int:
        """Let time pass, in a share of which the process works, and look; return the returns."""
        self.seconds += seconds
        self.cpu_seconds += seconds * share
        self.quiet_times.look()
        return self.returns


def test_memory_is_returned_once_after_each_time_of_work() -> None:
    process = Process()
    idle, busy = QUIET_SHARE / 2, QUIET_SHARE * 2
    assert [process.look_after(1, idle) for _ in range(3)] == [0, 0, 0]
    assert [process.look_after(1, busy) for _ in range(3)] == [0, 0, 0]
    # What returning takes is no work that would have to be followed by another return.
    assert [process.look_after(1, idle) for _ in range(3)] == [1, 1, 1]
    assert process.look_after(1, busy) == 1
    assert process.look_after(60, idle) == 2
