"""From where a reader of the census goes on, and when it has to be told everything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from amqp_server.admin.census.census import Census


class Turn:
    """Keeps what is to be done later."""

    def mark_after_real(self, _seconds: float, _what: object) -> Any:  # noqa: ANN401 - a timer
        return SimpleNamespace(cancel=lambda: None)


class Scene:
    """A census of a broker that has nothing but changes."""

    def __init__(self) -> None:
        self.queues = SimpleNamespace(lost_until=0, generation=0)
        self.channels = SimpleNamespace(lost_until=0, generation=0)
        counted = SimpleNamespace(told=self.channels)
        storage = SimpleNamespace(changed_queues=self.queues, counted_channels=counted)
        broker = SimpleNamespace(storage=storage, turn=Turn())
        self.census = Census(cast("Any", broker), cast("Any", None))


def test_a_reader_goes_on_from_its_last_look() -> None:
    census = Scene().census
    first = census.begin(0)
    assert (first.since, first.generation) == (0, census.run + 1)
    assert census.begin(first.generation).since == first.generation
    assert census.begin(first.generation).since == first.generation


def test_a_number_of_no_look_tells_everything() -> None:
    census = Scene().census
    census.begin(0)
    for since in (census.run - 1, census.run, -1):
        assert census.begin(since).since == 0
    for ahead in (1, 2, 1000):
        assert census.begin(census.generation + ahead).since == 0


@pytest.mark.parametrize("kind", ["queues", "channels", "compared"])
def test_a_reader_that_missed_what_is_forgotten_is_told_everything(kind: str) -> None:
    """Otherwise it would show for ever what has gone meanwhile."""
    scene = Scene()
    census = scene.census
    before, last = census.begin(0).generation, census.begin(0).generation
    holder = census._consumers if kind == "compared" else getattr(scene, kind)
    holder.lost_until = last

    assert census.begin(before).since == 0
    assert census.begin(last).since == 0
    after = census.generation
    assert census.begin(after).since == after
