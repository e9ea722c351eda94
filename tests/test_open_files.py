"""The limit of open files, in processes of their own: it cannot be raised again."""

import subprocess
import sys

import pytest

PROGRAM = """
import logging, resource, sys
from amqp_server.config import ServerConfig
from amqp_server.open_files import claim_open_files
logging.basicConfig(stream=sys.stderr)
soft, hard = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
config = claim_open_files(ServerConfig())
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], config.limits.connections_max)
"""


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "warned"),
    [
        pytest.param(256, 16_000, 10_000, False, id="raised as far as it goes"),
        pytest.param(256, 2_000, 2_000 - 960, True, id="fewer connections, and a warning"),
        pytest.param(256, 512, 512 // 16, True, id="too few for the logs: some connections"),
    ],
)
def test_connections_fit_in_the_limit(
    soft: int, hard: int, connections: int, *, warned: bool
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(soft), str(hard)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.split() == [str(hard), str(connections)]
    assert ("open files limit" in ended.stderr) == warned
