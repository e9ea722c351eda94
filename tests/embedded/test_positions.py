"""Where a group begins in a log, and goes when it is told to."""

from datetime import UTC, datetime

import pytest

from offsets import LogRoot, Position
from tests.embedded.consumers import consumer, drain, fill

MOMENTS = {
    "earliest": (Position.EARLIEST, 0),
    "latest": (Position.LATEST, 20),
    "offset": (Position.at_offset(4), 4),
    "offset behind the end": (Position.at_offset(1000), 20),
    "last": (Position.last(3), 17),
    "last of more than there are": (Position.last(300), 0),
    "time before all": (Position.at_time(0), 0),
    "time after all": (Position.at_time(datetime(2200, 1, 1, tzinfo=UTC)), 20),
}


@pytest.mark.parametrize(("position", "offset"), MOMENTS.values(), ids=MOMENTS)
def test_a_group_begins_and_is_moved_where_it_is_told(
    root: LogRoot, position: Position, offset: int
) -> None:
    fill(root, "events", 20)
    rest = {"events": list(range(offset, 20))} if offset < 20 else {}
    with consumer(root, start=position) as reader:
        assert reader.committed("events") is None
        assert drain(reader) == rest
    with consumer(root, "moved") as reader:
        reader.ack_range("events", 2, 6)
        assert reader.seek(position, "events") == {"events": offset}
        assert reader.committed("events") == offset
        assert drain(reader) == rest
    with consumer(root, "moved") as reader:
        assert drain(reader) == rest


def test_a_group_that_is_reset_begins_anew_and_stays_there(root: LogRoot) -> None:
    for name in ("a", "b"):
        fill(root, name, 10)
    with consumer(root, start=Position.last(3)) as reader:
        for name in ("a", "b"):
            reader.ack_range(name, 7, 10)
        assert reader.reset("a") == {"a": 7}
        assert drain(reader) == {"a": [7, 8, 9]}
        assert reader.reset() == {"a": 7, "b": 7}
    with consumer(root, start=Position.EARLIEST) as reader:
        assert drain(reader) == {"a": [7, 8, 9], "b": [7, 8, 9]}
        assert reader.reset() == {"a": 0, "b": 0}
        assert reader.lag().total == 20


def test_a_time_is_that_of_the_records(root: LogRoot) -> None:
    fill(root, "events", 3)
    moment = datetime.now(UTC)
    while datetime.now(UTC) <= moment:
        pass
    fill(root, "events", 3)
    with consumer(root, start=Position.at_time(moment)) as reader:
        assert drain(reader) == {"events": [3, 4, 5]}
    with pytest.raises(ValueError, match="no time zone"):
        Position.at_time(datetime(2020, 1, 1))  # noqa: DTZ001 - that is the point


def test_a_place_is_where_the_group_begins_only_once(root: LogRoot) -> None:
    fill(root, "events", 5)
    consumer(root, start=Position.LATEST).close()
    fill(root, "events", 5)
    with consumer(root, start=Position.EARLIEST) as reader:
        assert drain(reader) == {"events": [5, 6, 7, 8, 9]}
