"""Neighbouring messages are sorted by queue, at once or in steps."""

from collections import deque
from dataclasses import dataclass
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.publishing.publish_targets import PublishTarget
from amqp_server.broker.publishing.row import STEP_QUEUES, by_queue, by_queue_in_steps
from amqp_server.broker.queue import Queue

QUEUES = [cast("Queue", f"q{number}") for number in range(6)]


@dataclass
class Target:
    queues: list[Queue]


def group(queues: list[Queue], *messages: bytes) -> tuple[PublishTarget, list[bytes]]:
    return cast("PublishTarget", Target(queues)), list(messages)


@given(st.lists(st.sets(st.sampled_from(QUEUES)), max_size=8))
def test_steps_sort_as_one_call_does_and_change_no_group(targets: list[set[Queue]]) -> None:
    groups = [
        group(sorted(queues, key=str), b"%d" % number, b"more")
        for number, queues in enumerate(targets)
    ]
    before = [list(messages) for _, messages in groups]
    at_once: dict[Queue, list[bytes]] = {}
    by_queue(groups, at_once)
    in_steps: dict[Queue, list[bytes]] = {}
    deque(by_queue_in_steps(groups, in_steps), maxlen=0)

    assert in_steps == at_once
    assert [messages for _, messages in groups] == before


def test_one_group_for_many_queues_takes_many_steps() -> None:
    queues = [cast("Queue", number) for number in range(3 * STEP_QUEUES)]
    queued: dict[Queue, list[bytes]] = {}
    steps = by_queue_in_steps([group(queues, b"to all")], queued)
    next(steps)

    assert len(queued) == STEP_QUEUES
