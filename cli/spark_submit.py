"""Command line that runs an export with `spark-submit`; printed for the user to copy."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from appendlog.spark.running.packaging import package_archive

OPTION: Final = "--print-spark-submit"
_PLACES: Final = ("--storage-path", "--out")
_JOB: Final = "cli.submitted.export_job"


def spark_submit_line(arguments: Sequence[str], master: str, storage_path: str, out: str) -> str:
    """Return the command, quoted for a shell, one option per line.

    The driver runs in this Python; the workers run in their own, with our code from an archive.

    Args:
        arguments: Arguments of the export, as given.
        master: Master of Spark.
        storage_path: Data directory; made absolute, unless it is a URL.
        out: Output; likewise.
    """
    job = find_spec(_JOB)
    assert job is not None
    assert job.origin is not None
    groups = [
        [_program(), "--master", master],
        ["--conf", f"spark.pyspark.driver.python={sys.executable}"],
        ["--py-files", str(package_archive())],
        [job.origin, "--storage-path", _absolute(storage_path)],
        ["--out", _absolute(out), *_others(arguments)],
    ]
    return " \\\n  ".join(shlex.join(group) for group in groups)


def _program() -> str:
    """Return the program: spark-submit from the path, or where pip has installed it."""
    if shutil.which("spark-submit"):
        return "spark-submit"
    beside = Path(sys.executable).with_name("spark-submit")
    return str(beside) if beside.exists() else "spark-submit"


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(place).absolute())


def _others(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without the places, which are written out, and --print-submit."""
    others: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in _PLACES:
            next(words, None)
        elif word != OPTION and word.partition("=")[0] not in _PLACES:
            others.append(word)
    return others
