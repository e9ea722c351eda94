"""Which checkpoints settle more than their logs have: they are replaced before a log grows."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from uuid import uuid4

import pytest

from amqp_server.recovery.queue_recovery import leading_incarnations
from offsets.queue_checkpoint import QueueCheckpoint

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue

END = 10


@pytest.mark.parametrize(
    ("floor", "acked", "returned", "leads"),
    [
        (END, [], [], False),
        (END + 1, [], [], True),
        (0, [(8, END)], [(7, END, 1)], False),
        (0, [(8, END + 1)], [], True),
        (0, [], [(8, END + 1, 1)], True),
        (0, [(8, END)], [(7, END + 1, 1)], True),
        (0, [(8, END + 1)], [(3, 7, 1)], True),
    ],
)
def test_a_checkpoint_leads_that_settles_or_counts_above_the_end(
    floor: int, acked: list[tuple[int, int]], returned: list[tuple[int, int, int]], leads: bool
) -> None:
    one = uuid4()
    states = {one: QueueCheckpoint(one, floor, acked, redeliveries=returned)}
    queues = [SimpleNamespace(incarnation=each, opened_end=END) for each in (one, uuid4())]
    found = leading_incarnations(states, cast("list[Queue]", queues))
    assert found == ({one} if leads else set())
