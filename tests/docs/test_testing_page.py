"""The examples of the pages about tests run, and print what they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.crash

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "testing-your-code.md").read_text()
FAULTS_PAGE = (REPOSITORY / "docs" / "testing-faults.md").read_text()
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
PROGRAMS = [
    found for found in EXAMPLE.findall(PAGE) if "def test_" not in found[0].split("class")[0]
]


@pytest.mark.parametrize(("code", "printed"), PROGRAMS)
def test_a_program_prints_what_the_page_says(code: str, printed: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-P", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY)},
    )
    assert (ended.stdout, ended.returncode) == (printed, 0), ended.stderr
    assert ended.stderr == "" or ended.stderr.endswith("\n\nOK\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("page", [PAGE, FAULTS_PAGE])
def test_the_tests_on_the_pages_pass(page: str, tmp_path: Path) -> None:
    codes = [code for code, _ in EXAMPLE.findall(page) if "\ndef test_" in code]
    for number, code in enumerate(codes):
        (tmp_path / f"test_orders_{number}.py").write_text(code)
    ended = subprocess.run(
        [
            *(sys.executable, "-W", "error", "-P", "-m", "pytest", "-q", "--rootdir=."),
            *("-p", "amqp_server.testing.plugin", "-p", "no:cacheprovider"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    count = sum(code.count("\ndef test_") for code in codes)
    assert count >= 4
    assert f"{count} passed" in ended.stdout
