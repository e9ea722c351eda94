"""Objects that are compared with what was reported: each change reaches each reader."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from amqp_server.admin.change_feed import known_objects
from amqp_server.admin.change_feed.known_objects import KnownObjects
from amqp_server.admin.change_feed.poll import Poll


class Objects:
    """Some objects with one value each, and readers that poll them."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {"a": 1, "b": 1}
        self.known: KnownObjects[str] = KnownObjects()
        self.latest = 0

    def begin(self, since: int) -> Poll:
        self.latest += 1
        return Poll(self.latest, since, lambda: self.latest)

    def see(self, poll: Poll, name: str) -> list[Any] | None:
        return self.known.see(name, lambda each: {"name": each}, [self.values[name]], poll)

    def end(self, poll: Poll) -> None:
        deque(self.known.forget_unseen(poll), maxlen=0)

    def poll(self, since: int) -> tuple[int, list[list[Any]]]:
        poll = self.begin(since)
        rows = [row for name in self.values if (row := self.see(poll, name)) is not None]
        self.end(poll)
        return poll.generation, rows


def test_only_changes_are_reported_and_attributes_once() -> None:
    objects = Objects()
    since, rows = objects.poll(0)
    assert rows == [[1, {"name": "a"}, 1], [2, {"name": "b"}, 1]]
    since, rows = objects.poll(since)
    assert rows == []
    objects.values["b"] = 2
    since, rows = objects.poll(since)
    assert rows == [[2, None, 2]]


def test_what_goes_is_reported_once_and_a_name_that_comes_again_is_new() -> None:
    objects = Objects()
    since, _ = objects.poll(0)
    del objects.values["a"]
    before, (since, rows) = since, objects.poll(since)
    assert rows == []
    assert objects.known.gone_since(before) == [1]
    assert objects.known.gone_since(since) == []
    objects.values["a"] = 1
    _, rows = objects.poll(since)
    assert rows == [[3, {"name": "a"}, 1]]


def test_a_slow_poll_hides_no_change_from_a_quick_one() -> None:
    objects = Objects()
    since, _ = objects.poll(0)
    slow = objects.begin(since)
    quick_since, _ = objects.poll(since)
    objects.values["a"] = 5
    assert objects.see(slow, "a") == [1, None, 5]
    _, rows = objects.poll(quick_since)
    assert rows == [[1, None, 5]]


def test_a_slow_poll_removes_nothing_that_a_quick_one_saw() -> None:
    objects = Objects()
    since, _ = objects.poll(0)
    slow = objects.begin(since)
    for name in tuple(objects.values):
        objects.see(slow, name)
    objects.values["new"] = 1
    quick_since, rows = objects.poll(since)
    assert rows == [[3, {"name": "new"}, 1]]
    objects.end(slow)
    assert objects.known.gone_since(0) == []
    del objects.values["new"]
    objects.poll(quick_since)
    assert objects.known.gone_since(slow.generation) == [3]
    assert objects.known.gone_since(quick_since) == [3]


def test_after_a_forgetting_every_reader_begins_anew() -> None:
    objects = Objects()
    since, _ = objects.poll(0)
    objects.known.forget_all(objects.latest)
    assert objects.known.lost_until >= since
    _, rows = objects.poll(0)
    assert [row[1] for row in rows] == [{"name": "a"}, {"name": "b"}]


def test_of_many_that_have_gone_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_objects, "GONE_MAX", 2)
    objects = Objects()
    first, _ = objects.poll(0)
    for name in "abc":
        objects.values[name] = 1
    since, _ = objects.poll(first)
    del objects.values["a"], objects.values["b"]
    second, _ = objects.poll(since)
    assert objects.known.lost_until == 0
    del objects.values["c"]
    objects.poll(second)
    # A reader whose last poll was before that one has to get everything.
    assert objects.known.lost_until == second
    assert objects.known.gone_since(second) == [3]
