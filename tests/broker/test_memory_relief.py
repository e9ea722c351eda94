"""Memory relief writes what makes room, no more and no less, whenever the disk answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pytest

from amqp_server.broker.storing.memory_relief import MemoryRelief
from amqp_server.broker.turn import Turn
from tests.cutting import cut_everywhere

if TYPE_CHECKING:
    from amqp_server.broker.storing.message_store import MessageStore
    from appendlog import Log
    from ring import PagePool

STORE_BYTES = 100
STORES = 10


class Ring:
    """What a store holds."""

    held_bytes = STORE_BYTES


class Store:
    """A store whose messages leave when the disk has them."""

    def __init__(self) -> None:
        self.ring = Ring()
        self.leaving_bytes = 0

    def release_memory(self) -> bool:
        self.leaving_bytes = self.ring.held_bytes
        return False

    def leave(self) -> None:
        self.ring.held_bytes = self.leaving_bytes = 0


class Pool:
    """All that the stores hold."""

    def __init__(self, stores: list[Store]) -> None:
        self._stores = stores

    @property
    def held_bytes(self) -> int:
        return sum(store.ring.held_bytes for store in self._stores)


@pytest.mark.parametrize("answered_at_once", [0, 1, 2, STORES])
def test_what_has_left_between_two_steps_does_not_count_twice(
    monkeypatch: pytest.MonkeyPatch, answered_at_once: int
) -> None:
    cut_everywhere(monkeypatch)
    turns: list[Callable[[], None]] = []
    stores = [Store() for _ in range(STORES)]
    relief = MemoryRelief(
        Turn(turns.append, lambda _seconds, _run: pytest.fail("no timer is needed")),
        cast("PagePool", Pool(stores)),
        cast("dict[Log, MessageStore]", dict(enumerate(stores))),
    )
    relief.start(STORE_BYTES * 6)
    while turns:
        turns.pop(0)()
        leaving = [store for store in stores if store.leaving_bytes]
        for store in leaving[:answered_at_once]:
            store.leave()
    staying = [store for store in stores if store.ring.held_bytes and not store.leaving_bytes]
    assert len(staying) == 6
