"""The count of syncs in a trace, and loads that are really published and consumed."""

import pytest

from bench.broker_url import BrokerUrl
from bench.syncs import Load, count_syncs, publish
from tests.servers import RunningServer

TRACE = """\
13866 fsync(33 <unfinished ...>
13868 fdatasync(20)                     = 0
13866 <... fsync resumed>)              = 0
13870 sync_file_range(7, 0, 4096, SYNC_FILE_RANGE_WRITE) = 0
13871 pwritev2(9, [{iov_base="fsync"..., iov_len=80}], 1, 0, RWF_DSYNC) = 80
13871 pwritev2(9, [{iov_base="x"..., iov_len=8}], 1, 80, RWF_SYNC <unfinished ...>
13871 <... pwritev2 resumed>)           = 8
13872 pwritev2(9, [{iov_base="x"..., iov_len=8}], 1, 88, 0) = 8
13873 +++ exited with 0 +++
"""


def test_each_call_that_waits_for_the_disk_is_counted_once() -> None:
    assert count_syncs(TRACE) == 5


@pytest.mark.parametrize(
    "load",
    [Load(128, 1, 5), Load(128, 10, 1_005), Load(65_536, 10, 33, is_consumed=True)],
    ids=["one at a time", "window", "consumed"],
)
def test_a_load_is_confirmed_and_nothing_is_left(server: RunningServer, load: Load) -> None:
    assert publish(BrokerUrl(*server.address, "guest", "guest", "/"), load) > 0
    queues = list((server.storage_path / "metadata" / "queues").rglob("*.json"))
    assert not queues, "the queue was not deleted"
