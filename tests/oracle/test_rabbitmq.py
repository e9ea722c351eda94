"""A real RabbitMQ passes our conformance tests, but for those that say that it differs.

A smoke test of modules whose answers no load changes: how RabbitMQ cuts a stream into chunks
depends on what else the machine does. `make check-tools` runs the whole suite, one test at a time.
Here RabbitMQ is what is tested: that what we call its behaviour is its behaviour, and that every
difference is one.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.polling import URL_VARIABLE
from tests.conformance.rabbitmq import rabbitmq_url

REPOSITORY = Path(__file__).resolve().parents[2]
MODULES = (
    "exchange_plugins",
    "exchanges",
    "exclusive_queues",
    "queue_arguments",
    "transactions",
)
"""Of `tests/conformance/test_*.py`: some differences, and little that waits."""
PASSED_MIN, DIFFERENT_MIN = 250, 15


@pytest.mark.long
def test_rabbitmq_passes_and_differs_where_it_is_said(tmp_path: Path) -> None:
    with rabbitmq_url(tmp_path) as url:
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"),
                *(f"tests/conformance/test_{module}.py" for module in MODULES),
            ],
            cwd=REPOSITORY,
            env={**without_pytest(), URL_VARIABLE: url},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
    assert counted("passed", ran.stdout) >= PASSED_MIN
    assert counted("xfailed", ran.stdout) >= DIFFERENT_MIN


def without_pytest() -> dict[str, str]:
    """Return the environment but what the pytest around this one has put into it."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}


def counted(outcome: str, output: str) -> int:
    found = re.search(rf"\b(\d+) {outcome}\b", output.splitlines()[-1])
    assert found is not None, output
    return int(found[1])
