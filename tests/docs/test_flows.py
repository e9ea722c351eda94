"""The flows of the page of the architecture are what a server does, in this order."""

import json
import subprocess
import sys

import pytest

from tests.docs.flow_lines import (
    EVENT_LOOP,
    PAGE,
    REPOSITORY,
    Call,
    FlowSyntaxError,
    flows_of,
    mistakes,
    updated,
)

NAMES = ("start", "login", "declare", "publish", "deliver", "get", "ack", "stop")
EXAMPLE = """
```flow-get
broker/basic.py: get           takes one message
broker/queue.py: Queue.take
log.py: Log.read               [executor] from the disk
```
"""
CALLS = [
    Call("broker/basic.py", "get", EVENT_LOOP),
    Call("broker/names.py", "find_queue", EVENT_LOOP),
    Call("broker/queue.py", "Queue.take", EVENT_LOOP),
    Call("log.py", "Log.read", "executor"),
]


@pytest.fixture(scope="module")
def run() -> dict[str, list[Call]]:
    """Run a server of its own process, whose kernels are interpreted, through all flows."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.docs.flows", "--json"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    flows = json.loads(ended.stdout)
    return {name: [Call(*call) for call in calls] for name, calls in flows.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_flow_of_the_page_is_what_the_server_does(name: str, run: dict[str, list[Call]]) -> None:
    steps = flows_of(PAGE.read_text())[name]
    assert len(steps) >= 10
    assert mistakes(steps, run[name]) == [], "`python -m tests.docs.flows --update` mends the page"


def test_the_page_has_each_flow_that_is_run_and_no_other(run: dict[str, list[Call]]) -> None:
    assert list(flows_of(PAGE.read_text())) == list(NAMES)
    assert set(run) == set(NAMES)


def test_a_flow_as_it_ran_has_no_mistake() -> None:
    assert mistakes(flows_of(EXAMPLE)["get"], CALLS) == []


@pytest.mark.parametrize(
    ("calls", "mistake"),
    [
        pytest.param(
            [*CALLS[:2], CALLS[3]],
            "broker/queue.py: Queue.take is not called",
            id="no longer called",
        ),
        pytest.param(
            [*CALLS[:2], Call("broker/ports.py", "Source.take", EVENT_LOOP), CALLS[3]],
            "broker/queue.py: Queue.take is not called; there is broker/ports.py: Source.take",
            id="moved",
        ),
        pytest.param(
            [CALLS[2], *CALLS[:2], CALLS[3]],
            "broker/queue.py: Queue.take is called before broker/basic.py: get, not after it",
            id="in another order",
        ),
        pytest.param(
            [*CALLS[:3], Call("log.py", "Log.read", EVENT_LOOP)],
            "log.py: Log.read runs on event loop, not on executor",
            id="on another thread",
        ),
    ],
)
def test_a_flow_that_ran_otherwise_is_found(calls: list[Call], mistake: str) -> None:
    assert mistakes(flows_of(EXAMPLE)["get"], calls) == [mistake]


def test_an_update_writes_order_threads_and_moved_functions_and_keeps_the_words() -> None:
    calls = [
        Call("log.py", "Log.read", "reader"),
        Call("connections/handlers/basic.py", "get", EVENT_LOOP),
    ]
    text, gone = updated(f"# Page\n{EXAMPLE}\nEnd\n", {"get": calls})

    assert [line.split() for line in text.splitlines()] == [
        ["#", "Page"],
        [],
        ["```flow-get"],
        ["log.py:", "Log.read", "[reader]", "from", "the", "disk"],
        ["connections/handlers/basic.py:", "get", "takes", "one", "message"],
        ["```"],
        [],
        ["End"],
    ]
    assert gone == ["get: broker/queue.py: Queue.take"]
    assert mistakes(flows_of(text)["get"], calls) == []


def test_a_line_that_is_no_function_is_an_error() -> None:
    with pytest.raises(FlowSyntaxError, match="'no function': a line of a flow is"):
        flows_of("```flow-get\nno function\n```\n")
