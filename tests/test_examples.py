"""How Hypothesis looks for examples: the same ones in each run, or at random with a seed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

REPOSITORY = Path(__file__).parent.parent
DRAWS = """
from hypothesis import given, settings, strategies as st

@settings(max_examples=20)
@given(st.integers())
def test_of_any_number(number):
    print("drawn", number)
"""
LIMITED = """
import pytest

def limit_of(request):
    mark = request.node.get_closest_marker("timeout")
    return mark.args[0] if mark else "usual"

@pytest.mark.crash
def test_what_starts_servers(request):
    print("drawn", limit_of(request))

@pytest.mark.timeout(600)
def test_that_names_its_limit(request):
    print("drawn", limit_of(request))
"""


def drawn_with(profile: str) -> list[int]:
    """Return which numbers a test draws."""
    drawn: list[int] = []

    @settings(settings.get_profile(profile), max_examples=50)
    @given(st.integers())
    def search(number: int) -> None:
        drawn.append(number)

    search()
    return drawn


def test_the_examples_of_ordinary_runs_are_always_the_same() -> None:
    assert drawn_with("fixed") == drawn_with("fixed")
    if "HYPOTHESIS_PROFILE" not in os.environ:
        assert settings.default is settings.get_profile("fixed")


def run_long(directory: Path, *options: str, source: str = DRAWS) -> tuple[list[str], str]:
    """Return which numbers a test draws in a long run, and what stands above it."""
    test = directory / "test_draws.py"
    test.write_text(source)
    plugins = ("-p", "tests.conftest", "-p", "no:cacheprovider", "-p", "no:xdist")
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-c", "pyproject.toml", *plugins, *options, test],
        cwd=REPOSITORY,
        env=os.environ | {"HYPOTHESIS_PROFILE": "long"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return re.findall("drawn (.*)", outcome.stdout), outcome.stdout.partition("drawn")[0]


def test_a_long_run_prints_the_seed_of_its_examples(tmp_path: Path) -> None:
    drawn, above = run_long(tmp_path)
    assert len(drawn) == 20
    seed = re.search("--hypothesis-seed=[0-9]+", above)
    assert seed, above
    assert run_long(tmp_path, seed.group())[0] == drawn


def test_a_long_run_without_a_limit_has_none_for_any_test(tmp_path: Path) -> None:
    assert run_long(tmp_path, source=LIMITED)[0] == ["usual", "600"]
    assert run_long(tmp_path, "--timeout=0", source=LIMITED)[0] == ["0", "0"]
