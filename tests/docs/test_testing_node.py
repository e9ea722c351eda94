"""The tests on the page of Node.js pass, and fail where the code under test is wrong."""

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.foreign_pages import environment, run, write_files
from tests.interop.test_amqplib import NODE_DIRECTORY

pytestmark = pytest.mark.interop

FILES = ["broker.js", "orders.test.js", "worker.test.js"]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a directory with the files of the page, and amqplib."""
    modules = NODE_DIRECTORY / "node_modules"
    assert (modules / "amqplib").is_dir(), "run `make node` first"
    directory = tmp_path / "suite"
    directory.mkdir()
    assert write_files("testing-node.md", directory) == FILES
    (directory / "node_modules").symlink_to(modules)
    return directory


def node_test(suite: Path, *options: str, fails: bool = False) -> str:
    node = shutil.which("node")
    assert node is not None, "Node.js is not installed"
    command = (node, "--test", "--test-reporter=tap", *options, *FILES[1:])
    return run(*command, cwd=suite, env=environment(suite.parent), fails=fails).stdout


def test_the_tests_of_the_page_pass(suite: Path) -> None:
    printed = node_test(suite)
    assert re.findall(r"^# (?:pass|fail) (\d+)$", printed, re.MULTILINE) == ["4", "0"], printed


def test_a_test_of_the_page_fails_where_the_order_is_wrong(suite: Path) -> None:
    tests = suite / "orders.test.js"
    text = tests.read_text()
    assert "JSON.stringify(order)" in text
    tests.write_text(text.replace("JSON.stringify(order)", "JSON.stringify({ id: 7 })"))
    printed = node_test(suite, "--test-name-pattern=is published", fails=True)
    assert "+   id: 7" in printed, printed
