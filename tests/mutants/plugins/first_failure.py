"""A plugin of pytest: which test failed first, how, and within bounds of memory.

Loaded with `-p first_failure`; writes to the file that `MUTANTS_FAILURE` names, when one fails.
"""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest

MEMORY_BYTES = 4 << 30
"""A bug that collects for ever ends in a MemoryError, not with the machine."""


def pytest_configure() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    target = Path(os.environ["MUTANTS_FAILURE"])
    if report.failed and not target.exists():
        failure = {
            "test": report.nodeid,
            "seconds": round(report.duration, 1),
            "is_timeout": "Timeout (>" in report.longreprtext,
        }
        target.write_text(json.dumps(failure))
