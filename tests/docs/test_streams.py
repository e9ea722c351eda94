"""The page of streams is true: its program runs, and prints what the page says it does."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.code_blocks import REPOSITORY, texts_of
from tests.docs.test_readme import PLACE
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

PAGE = REPOSITORY / "docs" / "streams.md"
PRINTED = """\
[(0, b'event 0')] [(99, b'event 99')] [(42, b'event 42')] [(0, b'event 0')]
(97, b'event 97')
(40, b'event 40') (99, b'event 99')
[(100, b'emea'), (102, b'emea')]
[(98, b'event 98'), (99, b'event 99'), (101, b'apac')]
"""


@pytest.mark.crash
def test_the_program_of_the_page_runs_against_a_real_server(tmp_path: Path) -> None:
    program = "\n".join(texts_of(PAGE, "python"))
    assert PLACE in program
    with RunningServer(tmp_path / "data").start() as server:
        program = program.replace(PLACE, f"amqp://{server.host}:{server.port}")
        ended = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
    assert (ended.stdout, ended.stderr, ended.returncode) == (PRINTED, "", 0)
