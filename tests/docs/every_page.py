"""All blocks of code on all pages, run as a reader would: `make check-docs`.

Each page gets a machine of its own, with this checkout's `amqp-server`, a server that runs, and
what `preparations.py` says. Pages that a test of `.ci/run` runs whole are left to it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.systemd_machine import (
    PACKAGES,
    PYTHON,
    SOURCE,
    SystemdMachine,
    started_machine,
    what_is_missing,
)
from tests.docs.code_blocks import PAGES, REPOSITORY, RUN, code_blocks
from tests.docs.preparations import PREPARATIONS, Preparation
from tests.docs.test_code_blocks import RUN_BY_OTHERS, name_of

BLOCKS: Final = {
    page: [block for block in code_blocks(page) if block.language in RUN and block.reason is None]
    for page in PAGES
    if name_of(page) not in RUN_BY_OTHERS
}


@pytest.fixture
def machine() -> Iterator[SystemdMachine]:
    """Start a machine with the commands of a reader who has installed everything."""
    if missing := what_is_missing():
        pytest.fail(missing)
    with started_machine() as machine:
        environment = f"PYTHONPATH={SOURCE}:{PACKAGES} PYTHONDONTWRITEBYTECODE=1"
        commands = {
            "amqp-server": f"{environment} exec {PYTHON} -P -m amqp_server",
            "python": f"{environment} exec {PYTHON}",
            "python3": f"{environment} exec {PYTHON}",
        }
        for name, command in commands.items():
            machine.output(
                f"install /dev/stdin /usr/local/bin/{name} <<'END'\n"
                f'#!/bin/sh\n{command} "$@"\nEND\n'
            )
        yield machine


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [page for page in BLOCKS if BLOCKS[page]], ids=name_of)
def test_every_block_of_a_page_runs(machine: SystemdMachine, page: Path) -> None:
    prepared = PREPARATIONS.get(name_of(page), Preparation())
    told = {
        "name": name_of(page),
        "server": prepared.has_server,
        "shell": prepared.shell,
        "python": prepared.python,
        "blocks": [
            [block.line, block.language, block.text, block.when]
            for block in sorted(
                BLOCKS[page],
                key=lambda block: prepared.is_console_first and block.language != "console",
            )
        ],
    }
    machine.outside("/tmp/page").write_text(json.dumps(told))
    printed = machine.output(
        "python -m tests.docs.reader </tmp/page", directory=SOURCE, seconds=900
    )
    problems = json.loads(printed.splitlines()[-1])
    assert not problems, f"{page.relative_to(REPOSITORY)}\n" + "\n".join(problems)
