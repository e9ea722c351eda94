"""The projects of docs/examples/testing pass their own tests, as a user runs them: in a copy."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import REPOSITORY

pytestmark = pytest.mark.crash

EXAMPLES = REPOSITORY / "docs" / "examples" / "testing"
PROJECTS = sorted(path.name for path in EXAMPLES.iterdir() if (path / "pytest.ini").exists())
PLUGIN = ("-p", "amqp_server.testing.plugin")
ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
MODES = {"strict": (*ASYNCIO, "--asyncio-mode=strict"), "auto": (*ASYNCIO, "--asyncio-mode=auto")}
XDIST = ("-p", "xdist.plugin", "--numprocesses=2")


def run(name: str, directory: Path, *options: str) -> int:
    """Return how many tests of a project pass; all of them must."""
    copy = directory / name
    shutil.copytree(EXAMPLES / name, copy, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    ended = subprocess.run(
        # By its module: the entry point is there only where the package was installed.
        [
            *(sys.executable, "-W", "error", "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-o", "required_plugins=", *PLUGIN, *options),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=copy,
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "warning" not in ended.stdout.lower(), ended.stdout
    passed = re.search(r"^(\d+) passed in", ended.stdout, re.MULTILINE)
    assert passed, ended.stdout
    return int(passed[1])


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_passes(name: str, tmp_path: Path) -> None:
    code = "".join(path.read_text() for path in (EXAMPLES / name).glob("test_*.py"))
    options = MODES["strict"] if "asyncio" in code else ()
    assert run(name, tmp_path, *options) >= code.count("def test_") > 0


def test_asyncio_projects_pass_in_the_mode_auto(tmp_path: Path) -> None:
    run("aio-pika", tmp_path, *MODES["auto"])


def test_celery_projects_pass_in_each_worker_of_xdist(tmp_path: Path) -> None:
    run("celery", tmp_path, *XDIST, *MODES["auto"])


def test_all_projects_are_there() -> None:
    assert PROJECTS == ["aio-pika", "celery", "django", "dramatiq", "kombu", "pika"]


def test_the_page_names_all_files() -> None:
    page = (REPOSITORY / "docs" / "testing-your-code.md").read_text()
    for name in PROJECTS:
        for path in (EXAMPLES / name).glob("*.py"):
            assert f"(examples/testing/{name}/{path.name})" in page
