"""Runs a benchmark in two processes, with the compiled decoder and with the interpreted one."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

_STORAGE_PATH: Final = "BENCH_SPARK_STORAGE_PATH"
_PURE: Final = "AMQP_SERVER_PURE_PYTHON"


def storage_path_of_child() -> Path | None:
    """Return the data directory if this process is one of the two, else None."""
    path = os.environ.get(_STORAGE_PATH)
    return Path(path) if path else None


def is_interpreted() -> bool:
    """Return whether this process loads the interpreted decoder."""
    return os.environ[_PURE] == "1"


def run_in_both_builds(storage_path: Path, *arguments: str) -> None:
    """Run `python -m bench.spark` with these arguments in both processes, one after the other.

    Args:
        storage_path: Data directory; each process gets it from `storage_path_of_child`.
        arguments: Name of the benchmark and its options.
    """
    for is_pure in ("0", "1"):
        environment = os.environ | {_STORAGE_PATH: str(storage_path), _PURE: is_pure}
        command = [sys.executable, "-m", "bench.spark", *arguments]
        subprocess.run(command, env=environment, check=True)
