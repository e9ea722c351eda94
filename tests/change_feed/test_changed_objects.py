"""The poll from which a reader of the change feed goes on, and when it gets all objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from amqp_server.admin.change_feed.changed_objects import ChangedObjects


class Turn:
    """Keeps what is to be done later."""

    def mark_after_real(self, _seconds: float, _what: object) -> Any:  # noqa: ANN401 - a timer
        return SimpleNamespace(cancel=lambda: None)


class Scene:
    """The change feed of a broker that has nothing but changes."""

    def __init__(self) -> None:
        self.queues = SimpleNamespace(lost_until=0, generation=0)
        self.channels = SimpleNamespace(lost_until=0, generation=0)
        counted = SimpleNamespace(reported=self.channels)
        storage = SimpleNamespace(changed_queues=self.queues, counted_channels=counted)
        broker = SimpleNamespace(storage=storage, turn=Turn())
        self.feed = ChangedObjects(cast("Any", broker), cast("Any", None))


def test_a_reader_goes_on_from_its_last_poll() -> None:
    feed = Scene().feed
    first = feed.begin(0)
    assert (first.since, first.generation) == (0, feed.run + 1)
    assert feed.begin(first.generation).since == first.generation
    assert feed.begin(first.generation).since == first.generation


def test_a_number_of_no_poll_reports_everything() -> None:
    feed = Scene().feed
    feed.begin(0)
    for since in (feed.run - 1, feed.run, -1):
        assert feed.begin(since).since == 0
    for ahead in (1, 2, 1000):
        assert feed.begin(feed.generation + ahead).since == 0


@pytest.mark.parametrize("kind", ["queues", "channels", "compared"])
def test_a_reader_that_missed_what_is_forgotten_gets_everything(kind: str) -> None:
    """Otherwise it would show for ever what has gone meanwhile."""
    scene = Scene()
    feed = scene.feed
    before, last = feed.begin(0).generation, feed.begin(0).generation
    holder = feed._consumers if kind == "compared" else getattr(scene, kind)
    holder.lost_until = last

    assert feed.begin(before).since == 0
    assert feed.begin(last).since == 0
    after = feed.generation
    assert feed.begin(after).since == after
