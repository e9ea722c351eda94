"""A machine dies, its volume moves to another one, and nothing is lost.

`MOVING_ROUNDS` and `MOVING_SEED` set the length and the luck, `MOVING_QUEUES` and
`MOVING_MEGABYTES` what lies in queues that nobody takes from; `python -m tests.moving` does the
same without pytest.
"""

import os
import subprocess
import sys

import pytest

from tests.limits import HANG_SECONDS
from tests.moving.machines import what_is_missing
from tests.moving.mover import Death
from tests.servers import REPOSITORY

ROUNDS = int(os.environ.get("MOVING_ROUNDS", len(Death)))
SEED = os.environ.get("MOVING_SEED", "1")
QUEUES = os.environ.get("MOVING_QUEUES", "50")
MEGABYTES = os.environ.get("MOVING_MEGABYTES", "10")
SECONDS_A_ROUND = 20

pytestmark = [pytest.mark.crash, pytest.mark.timeout(2 * HANG_SECONDS + ROUNDS * SECONDS_A_ROUND)]


def test_nothing_is_lost_when_a_machine_dies_and_its_volume_moves() -> None:
    missing = what_is_missing()
    if missing is not None:
        pytest.skip(missing)
    sizes = ["--queues", QUEUES, "--megabytes", MEGABYTES]
    command = ["-m", "tests.moving", "--rounds", str(ROUNDS), "--seed", SEED, *sizes]
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as moving:
        try:
            written, _ = moving.communicate()
        finally:
            moving.kill()
    print(written)
    assert moving.returncode == 0, written
    assert f"{ROUNDS} rounds, seed {SEED}, 0 lost" in written
    for death in Death:
        assert f" is {death.value}\n" in written or len(Death) > ROUNDS
