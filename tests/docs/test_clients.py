"""The page of differences counts the tests of each client as pytest collects them."""

import re
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "protocol-differences.md"


def collected() -> Counter[str]:
    """Return how many tests each file of the clients has."""
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "--no-header", "tests/interop"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return Counter(re.findall(r"^(tests/interop/\w+\.py)::", ended.stdout, re.MULTILINE))


def test_each_client_has_as_many_tests_as_the_page_says() -> None:
    section = PAGE.read_text().partition("\n## The clients that were run\n")[2]
    rows = re.findall(r"^\|[^|]+\| (\d+) \| `([^`]+)` \|$", section, re.MULTILINE)
    counts = collected()

    assert rows
    for told, pattern in rows:
        assert sum(counts[file] for file in counts if fnmatch(file, pattern)) == int(told), pattern
    patterns = [pattern for _, pattern in rows]
    assert len(patterns) == len(set(patterns)), "a client has two rows"
    unnamed = [file for file in counts if not any(fnmatch(file, each) for _, each in rows)]
    assert not unnamed
    (together,) = re.findall(r"^All (\d+) passed", section, re.MULTILINE)
    assert int(together) == counts.total()
