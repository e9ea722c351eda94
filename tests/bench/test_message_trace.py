"""The path of a lone message is no longer than it was: a budget of calls, without a time in it.

The numbers are those of CPython 3.11, whose calls the interpreter counts the same on every machine.
Work on the path lowers them; a feature that a queue does not use must not raise them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final, NamedTuple

import pytest

LINE: Final = re.compile(r"(\w+): (\d+) calls of \d+ functions in (\d+) files, \d+ changes of file")


class Budget(NamedTuple):
    """The most that one leg of the path may have."""

    calls: int
    files: int


BUDGETS: Final = {
    "publish": Budget(184, 61),
    "ack": Budget(39, 19),
    "get": Budget(97, 30),
    "call": Budget(146, 36),
}
"""A publish has its confirm and its delivery, a get its ack, a call its reply; the write of a
publish is an interpreted thread's. A constructor counts, that of a named tuple does not.

Where the machine is busy, a few more calls come: a task that takes a millisecond is recorded.
"""


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the budget counts calls of Python 3.11"
)
def test_no_leg_of_the_path_of_a_lone_message_is_longer_than_its_budget() -> None:
    command = [sys.executable, "-m", "bench.message_trace"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)

    found = {
        leg: Budget(int(calls), int(files)) for leg, calls, files in LINE.findall(printed.stdout)
    }
    longer = {
        leg: (found[leg], budget)
        for leg, budget in BUDGETS.items()
        if found[leg].calls > budget.calls or found[leg].files > budget.files
    }
    assert not longer, "`python -m bench.message_trace --calls` prints each call"
