"""Exports to tables that are killed before or after a step of theirs."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from appendlog.spark.exporting.tables.delta import DeltaDestination
from appendlog.spark.exporting.tables.iceberg import IcebergDestination

_PROGRAM: Final = """
import os, signal, sys
from importlib import import_module
from pathlib import Path
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.planning.queues import find_queue
from tests.spark.table_files import export

module, kind, data, queue, table, name, when = sys.argv[1:]
destination = getattr(import_module(module), kind)
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
log = find_queue(Path(data), "/", queue)
real = getattr(destination, name)
def dying(self, *arguments):
    if when == "before": die()
    result = real(self, *arguments)
    die()
    return result
setattr(destination, name, dying)
export(destination(LocalStore(Path(table)), log), log, Path(table), [(0, 100)])
"""


def kill_export(
    kind: type[DeltaDestination | IcebergDestination],
    data: Path,
    queue: str,
    table: Path,
    step: tuple[str, str],
) -> None:
    """Export offsets `[0, 100)` of a queue, and kill that at a step.

    Args:
        kind: Of table.
        data: The data directory.
        queue: Which queue.
        table: Where it lies.
        step: A method of it, and `before` or `after`.
    """
    arguments = [kind.__module__, kind.__name__, str(data), queue, str(table), *step]
    killed = subprocess.run([sys.executable, "-c", _PROGRAM, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
