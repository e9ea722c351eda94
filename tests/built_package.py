"""The wheel and the source distribution of this checkout, built once for all workers of a run."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from tests.servers import REPOSITORY


def built(kind: Literal["wheel", "sdist"], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a wheel or of a source distribution, the only one in its directory."""
    base = tmp_path_factory.getbasetemp()
    # With xdist each worker has a directory of its own in that of the run.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    directory = shared / kind
    # All builds use the same folder of the repository.
    with (shared / "package.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            partial = shared / f"{kind}-partial"
            _build(kind, partial)
            partial.rename(directory)
    (path,) = directory.iterdir()
    return path


def _build(kind: str, directory: Path) -> None:
    done = subprocess.run(
        (
            *(sys.executable, "-m", "build", f"--{kind}", "--no-isolation"),
            *("--skip-dependency-check", "--outdir", str(directory)),
        ),
        cwd=REPOSITORY,
        # What the compiler does with `-O3` takes a minute, and `make prepare` has shown it.
        env={**os.environ, "CFLAGS": "-O0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
