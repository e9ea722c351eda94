"""Which deliveries of a part are acked at the source: those that are here, and none besides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cli.migrate.queue_move import QueueMove


class Acks:
    """Keeps what is acked."""

    def __init__(self) -> None:
        self.tags: list[tuple[int, bool]] = []

    def ack(self, tag: int, *, multiple: bool) -> None:
        self.tags.append((tag, multiple))


@pytest.mark.parametrize(
    ("left", "acked"), [(0, [(13, True)]), (1, [(12, True)]), (3, [(10, True)]), (4, [])]
)
def test_all_but_the_last_ones_are_acked(left: int, acked: list[tuple[int, bool]]) -> None:
    part = [SimpleNamespace(tag=tag) for tag in range(10, 14)]
    channel, move = Acks(), SimpleNamespace(is_stream=False)
    QueueMove._ack_but(cast("Any", move), cast("Any", channel), cast("Any", part), left)
    assert channel.tags == acked


def test_a_stream_is_not_acked() -> None:
    channel, move = Acks(), SimpleNamespace(is_stream=True)
    part = [SimpleNamespace(tag=1)]
    QueueMove._ack_but(cast("Any", move), cast("Any", channel), cast("Any", part), 0)
    assert channel.tags == []
