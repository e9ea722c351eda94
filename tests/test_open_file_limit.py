"""The limit of open files, tested in processes of their own because it cannot be raised again."""

import subprocess
import sys

import pytest

PROGRAM = """
import logging, resource, sys
from amqp_server.base.config import ServerConfig
from amqp_server.base.errors import StartupError
from amqp_server.upkeep.open_file_limit import claim_open_files
from appendlog.files.descriptors import SHARED_DESCRIPTORS
from appendlog.files.mappings import SHARED_MAPPINGS
from appendlog.files.open_files import OPEN_FILES
from appendlog.segments.mapped_indexes import SHARED_INDEXES
logging.basicConfig(stream=sys.stderr)
soft, hard = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    config = claim_open_files(ServerConfig())
except StartupError as error:
    sys.exit(error.message)
caches = (SHARED_DESCRIPTORS.capacity, SHARED_MAPPINGS.count_max, SHARED_INDEXES.capacity)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], config.connections_max, *caches)
assert OPEN_FILES.numbers_end == hard - 16
"""


def claim(soft: int, hard: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(soft), str(hard)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "caches", "warned"),
    [
        pytest.param(256, 16_000, 10_000, (512, 128, 256), False, id="raised as far as it goes"),
        pytest.param(256, 10_960, 10_000, (512, 128, 256), False, id="just enough for all"),
        pytest.param(256, 10_959, 9_999, (512, 128, 256), True, id="one too few"),
        pytest.param(256, 2_000, 1_040, (512, 128, 256), True, id="fewer connections"),
        pytest.param(256, 512, 224, (128, 32, 64), True, id="half for the logs"),
        pytest.param(128, 128, 32, (18, 4, 9), True, id="as few as it works with"),
    ],
)
def test_connections_and_caches_fit_in_the_limit(
    soft: int, hard: int, connections: int, caches: tuple[int, int, int], *, warned: bool
) -> None:
    ended = claim(soft, hard)
    assert ended.returncode == 0, ended.stderr
    assert [int(word) for word in ended.stdout.split()] == [hard, connections, *caches]
    assert connections + sum(caches) + 64 <= hard
    assert (f"open files limit {hard} leaves room for {connections}" in ended.stderr) == warned
    assert ("all need 10960" in ended.stderr) == warned


def test_a_limit_that_is_too_small_refuses_the_start_and_says_what_to_do() -> None:
    ended = claim(100, 127)
    assert ended.returncode == 1
    assert ended.stderr == (
        "the limit of open files is 127, must be at least 128: raise it (ulimit -n, or "
        "LimitNOFILE= of the systemd unit)\n"
    )
