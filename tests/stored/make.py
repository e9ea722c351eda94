"""Make the archives of a format version, once: `python -m tests.stored.make VERSION [streams]`.

`v<version>-clean.tar.gz` is the data directory after a clean stop, `v<version>-killed.tar.gz` the
same after a checkpoint and SIGKILL; with `streams` they are called `v<version>-streams-...`.
"""

import sys
import tarfile
import tempfile
import time
from pathlib import Path

from cli.main import main as amqp_server
from tests.servers import RunningServer
from tests.stored import streams_scenario
from tests.stored.scenario import VHOST, fill

ARCHIVES = Path(__file__).parent
NOT_KEPT = {"LOCK", "control.sock", "reserve"}


def make(version: int, *, is_clean: bool, has_streams: bool) -> Path:
    """Fill a server, end it, and pack what it leaves."""
    with tempfile.TemporaryDirectory() as name:
        storage = Path(name, "data")
        with RunningServer(storage, "--offset-checkpoint-interval", "100ms") as server:
            server.start()
            if has_streams:
                streams_scenario.fill(server.address, storage)
            else:
                tell(server, storage, version)
            if version >= 1:
                assert amqp_server(["checkpoint", "--storage-path", str(storage)]) == 0
            if is_clean:
                assert server.terminate() == 0
            else:
                server.kill()
        kind = "-streams" if has_streams else ""
        archive = ARCHIVES / f"v{version}{kind}-{'clean' if is_clean else 'killed'}.tar.gz"
        with tarfile.open(archive, "w:gz") as packed:
            for path in sorted(storage.rglob("*")):
                if path.name not in NOT_KEPT:
                    packed.add(path, path.relative_to(storage), recursive=False)
    return archive


def tell(server: RunningServer, storage: Path, version: int) -> None:
    """Tell the scenario of queues."""
    code = amqp_server(["vhosts", "add", VHOST, "--storage-path", str(storage)])
    assert code == 0, "no virtual host was added"
    fill(server.address, version)
    if version >= 1:
        wait_for_compaction(storage)


def wait_for_compaction(storage: Path) -> None:
    """Return when a segment was rewritten."""
    while not list(storage.glob("logs/**/*-0000000001.log")):
        time.sleep(0.1)


if __name__ == "__main__":
    for clean in (True, False):
        made = make(int(sys.argv[1]), is_clean=clean, has_streams="streams" in sys.argv[2:])
        sys.stdout.write(f"{made} {made.stat().st_size} bytes\n")
