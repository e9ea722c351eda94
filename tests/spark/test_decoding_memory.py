"""How much memory a reader of a log takes, whatever lies in the log."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from appendlog import Append
from tests.spark.builders import plain_message, store_queue

MIB: Final = 1 << 20
OWN_BYTES_MAX: Final = 300 * MIB
LARGEST_TIMES: Final = 4

READ: Final = """
import sys
from pathlib import Path
from appendlog.reader import LogReader
from appendlog.spark.decoding.log_batches import log_batches
from appendlog.spark.planning.queues import find_queue
from appendlog.split_reader import SplitReader
log = find_queue(Path(sys.argv[1]), "/", "orders")
with LogReader(log.directory) as reader:
    splits = reader.plan_splits(split_bytes=1 << 40)
assert len(splits) == 1
reading = SplitReader(log.directory)
rows = sum(batch.rows.num_rows for batch in log_batches(reading, log, splits[0]))
# Not ru_maxrss: that begins with what the test's own process had when it started this one.
status = Path("/proc/self/status").read_text().split()
print(rows, int(status[status.index("VmHWM:") + 1]) * 1024)
"""


class Stored(NamedTuple):
    """A log on disk."""

    path: Path
    messages: int
    body_bytes: int


@pytest.fixture(
    scope="module",
    params=[(224 << 10, 1024), (3, 64 * MIB)],
    ids=["of many messages", "of large messages"],
)
def stored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stored]:
    """Write a log of one segment, larger than what a reader may take."""
    messages, body_bytes = request.param
    path = tmp_path_factory.mktemp("stored")
    queue = store_queue(path, segment_bytes=1 << 30)
    for at in range(0, messages, 1024):
        count = min(1024, messages - at)
        step = max(1, MIB // body_bytes)
        batch = [plain_message(at + n, body_bytes) for n in range(count)]
        queue.append(batch, sync=False, step=step)
    queue.log.append(Append([], messages, sync=True))
    segments = queue.segments()
    queue.close()
    assert len(segments) == 1
    yield Stored(path, messages, body_bytes)
    segments[0].unlink()


@pytest.mark.parametrize("pure", ["0", "1"], ids=["compiled", "interpreted"])
def test_a_reader_holds_a_batch_and_at_most_four_times_the_largest_message(
    stored: Stored, pure: str
) -> None:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-P", "-c", READ, str(stored.path)],
        env={"AMQP_SERVER_PURE_PYTHON": pure, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    rows, peak_bytes = map(int, done.stdout.split())
    assert rows == stored.messages
    assert peak_bytes < OWN_BYTES_MAX + LARGEST_TIMES * stored.body_bytes
