"""The tests on the page of Go pass, and fail where the code under test is wrong.

`make check-tools` runs this, and the suite does not: Go compiles for some seconds.
"""

import os
import re
import shutil
from pathlib import Path

import pytest

from bench.traffic.native.clients import ROOT_VARIABLE
from tests.docs.foreign_pages import environment, need, run, write_files

pytestmark = pytest.mark.interop

ROOT = Path(os.environ.get(ROOT_VARIABLE, "/"))
SOURCES = ROOT / "usr" / "share" / "gocode"
FILES = ["broker_test.go", "orders_test.go", "crash_test.go"]


def find_go() -> str | None:
    """Return the path of Go, of unpacked packages first."""
    unpacked = sorted(ROOT.glob("usr/lib/go-*/bin/go"))
    return str(unpacked[-1]) if unpacked else shutil.which("go")


def go_test(directory: Path, *options: str, fails: bool = False) -> str:
    """Run the tests of a directory in a GOPATH, as Debian has it; return what Go printed."""
    go = find_go()
    assert go is not None
    env = {
        **environment(directory.parent),
        "GO111MODULE": "off",
        "GOPATH": str(SOURCES),
        "GOCACHE": str(directory.parent / "cache"),
        "GOROOT": str(Path(go).resolve().parents[1]),
        "GOFLAGS": "",
        "CGO_ENABLED": "0",
    }
    return run(go, "test", "-v", *options, ".", cwd=directory, env=env, fails=fails).stdout


def test_the_tests_of_the_page_pass_and_fail_where_the_order_is_wrong(tmp_path: Path) -> None:
    need(
        {"go": find_go(), "amqp091-go": (SOURCES / "src/github.com/rabbitmq/amqp091-go").is_dir()},
        "golang-go golang-github-rabbitmq-amqp091-go-dev",
    )
    suite = tmp_path / "orders"
    suite.mkdir()
    assert write_files("testing-go.md", suite) == FILES
    printed = go_test(suite)
    assert len(re.findall(r"^--- PASS: ", printed, re.MULTILINE)) == 3, printed

    tests = suite / "orders_test.go"
    text = tests.read_text()
    assert "[]byte(order)" in text
    tests.write_text(text.replace("[]byte(order)", "[]byte(order + order)"))
    printed = go_test(suite, "-run", "Published", fails=True)
    assert re.findall(r"^--- (\w+): (\w+)", printed, re.MULTILINE) == [
        ("FAIL", "TestAnOrderIsPublished")
    ], printed
