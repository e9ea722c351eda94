"""Exactly once, whatever step of an export a SIGKILL hits, and whatever step of the next one."""

import subprocess
import sys
from pathlib import Path


def test_an_export_may_be_killed_at_every_step(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.killed_exports", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps = [int(line) for line in done.stdout.split()]
    # Files written, a manifest, moves: fewer steps would mean that some were missed.
    assert len(steps) == 2
    assert min(steps) > 25
