"""The tests on the page of Java pass, and fail where the code under test is wrong.

`make check-tools` runs this, and the suite does not: it takes some seconds.
"""

import os
import shutil
from pathlib import Path

import pytest

from bench.traffic.native.clients import ROOT_VARIABLE
from tests.docs.foreign_pages import environment, need, run, write_files

pytestmark = pytest.mark.interop

JARS = Path(os.environ.get(ROOT_VARIABLE, "/")) / "usr" / "share" / "java"
PACKAGES = {
    "librabbitmq-client-java": ("amqp-client", "slf4j-api"),
    "libjackson2-databind-java": ("jackson-core", "jackson-databind", "jackson-annotations"),
    "junit5": (
        *("apiguardian-api", "opentest4j", "picocli", "junit-jupiter-api", "junit-jupiter-engine"),
        *("junit-platform-commons", "junit-platform-console", "junit-platform-engine"),
        *("junit-platform-launcher", "junit-platform-reporting", "opentest4j-reporting-events"),
    ),
}
NAMES = [name for names in PACKAGES.values() for name in names]
CLASS_PATH = ":".join([".", *(str(JARS / f"{name}.jar") for name in NAMES)])


def junit(suite: Path, *, fails: bool = False) -> str:
    """Compile the files of a directory and run their tests; return what JUnit printed."""
    env = environment(suite.parent)
    run("javac", "-cp", CLASS_PATH, "Broker.java", "OrdersTest.java", cwd=suite, env=env)
    console = "org.junit.platform.console.ConsoleLauncher"
    command = ("java", "-cp", CLASS_PATH, console, "--disable-banner", "-c", "OrdersTest")
    return run(*command, cwd=suite, env=env, fails=fails).stdout


def test_the_tests_of_the_page_pass_and_fail_where_the_order_is_wrong(tmp_path: Path) -> None:
    parts = {f"{name}.jar": (JARS / f"{name}.jar").exists() for name in NAMES}
    need({"javac": shutil.which("javac"), **parts}, f"default-jdk-headless {' '.join(PACKAGES)}")
    suite = tmp_path / "suite"
    suite.mkdir()
    assert write_files("testing-java.md", suite) == ["Broker.java", "OrdersTest.java"]
    printed = junit(suite)
    assert "3 tests successful" in printed, printed

    tests = suite / "OrdersTest.java"
    text = tests.read_text()
    assert "order.getBytes" in text
    tests.write_text(text.replace("order.getBytes", "(order + order).getBytes"))
    printed = junit(suite, fails=True)
    assert "2 tests successful" in printed, printed
    assert "1 tests failed" in printed, printed
