import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog.reader import LogReader
from appendlog.spark.errors import BoundError, RangeError
from appendlog.spark.planning.bound_texts import (
    OFFSET_MAX,
    parse_offset_or_time,
    parse_offsets,
    parse_time,
    parse_times,
)
from appendlog.spark.planning.bounds import (
    EARLIEST,
    LATEST,
    Bound,
    Bounds,
    IfNoneLater,
    ResolvedRange,
    resolve_range,
)
from tests.spark.builders import START_NS, plain_messages, store_queue


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogReader]:
    """Give a log of the offsets [100, 400), 50 to a chunk; its beginning was removed."""
    queue = store_queue(tmp_path_factory.mktemp("bounds"), segment_bytes=10_000)
    queue.append(plain_messages(400))
    queue.close()
    first, second = queue.segments()[:2]
    first.unlink()
    with LogReader(queue.location.directory) as reader:
        assert reader.log_start_offset == int(second.stem) == 100
        assert reader.log_end_offset == 400
        yield reader


def time_of(offset: int) -> int:
    """Return when the chunk of an offset was appended, as the builder says."""
    return START_NS + offset // 50 * 50 * 1_000_123


@pytest.mark.parametrize("text", ["earliest", "EARLIEST", "-2", " earliest "])
def test_earliest_is_written_as_kafka_does(text: str) -> None:
    assert parse_offsets(text) == Bounds(EARLIEST)


@pytest.mark.parametrize("text", ["latest", "Latest", "-1"])
def test_latest_is_written_as_kafka_does(text: str) -> None:
    assert parse_offsets(text) == Bounds(LATEST)


def test_a_number_is_an_offset_of_all_queues() -> None:
    bounds = parse_offsets("123")
    assert bounds.of("a") == bounds.of("b") == Bound.at_offset(123)
    bounds.check(["a", "b"])


def test_json_has_an_offset_for_each_queue() -> None:
    bounds = parse_offsets(' {"a": {"0": 7}, "b": {"0": -2}, "c": {"0": "latest"}}')
    assert [bounds.of(queue) for queue in "abc"] == [Bound.at_offset(7), EARLIEST, LATEST]
    assert bounds.all == {Bound.at_offset(7), EARLIEST, LATEST}
    assert pickle.loads(pickle.dumps(bounds)) == bounds


def test_offsets_of_a_stream_can_be_given_as_its_checkpoint_has_them() -> None:
    text = '{"a": {"0": 7, "from": 1, "incarnation": "x", "version": 1, "vhost": "/"}}'
    assert parse_offsets(text).of("a") == Bound.at_offset(7)


def test_json_must_be_of_exactly_the_queues_that_are_read() -> None:
    bounds = parse_offsets('{"a": {"0": 7}, "b": {"0": 8}}')
    bounds.check(["a", "b"])
    with pytest.raises(BoundError, match="no offset for queue 'c': write -2 for earliest"):
        bounds.check(["a", "b", "c"])
    with pytest.raises(BoundError, match="queue 'b' is not among"):
        bounds.check(["a"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("soon", "'soon' is no offset: write earliest"),
        ("", "'' is no offset"),
        ("-3", "0 to 9223372036854775807, -1 for latest"),
        (str(2**63), "is no offset: 0 to"),
        ("9" * 5000, "is no offset: 0 to"),
        ('{"a": {"0": 1}', "no JSON"),
        ('{"a":' * 100_000, "no JSON"),
        ('{"a": 1}', "queue 'a' has one partition, 0, found 1"),
        ('{"a": {"1": 1}}', "queue 'a' has one partition, 0"),
        ('{"a": {"0": 1, "1": 1}}', "queue 'a' has one partition, 0"),
        ('{"a": {"0": true}}', "true of queue 'a'"),
        ('{"a": {"0": 1.5}}', "1.5 of queue 'a'"),
    ],
)
def test_what_is_no_offset_is_refused(text: str, message: str) -> None:
    with pytest.raises(BoundError, match=message):
        parse_offsets(text)


@pytest.mark.parametrize(
    ("text", "timestamp_ns"),
    [
        ("0", 0),
        ("1700000000123", 1_700_000_000_123_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000_000_000),
        ("2023-11-14T23:13:20.000001+01:00", 1_700_000_000_000_001_000),
        ("2023-11-14 22:13:20", 1_700_000_000_000_000_000),
        ("1970-01-02", 86_400_000_000_000),
    ],
)
def test_a_time_is_milliseconds_or_iso_8601(text: str, timestamp_ns: int) -> None:
    assert parse_time(text) == Bound.at_time(timestamp_ns)


@pytest.mark.parametrize("text", ["-1", "tomorrow", "", "9" * 30, "2026-02-30"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(BoundError, match="is no time"):
        parse_time(text)


def test_json_has_a_time_for_each_queue() -> None:
    bounds = parse_times('{"a": {"0": 1000}, "b": {"0": "1970-01-01T00:00:01Z"}}')
    assert bounds.of("a") == bounds.of("b") == Bound.at_time(10**9)
    assert parse_times("1000") == Bounds(Bound.at_time(10**9))


def test_of_an_offset_or_a_time_a_number_is_an_offset() -> None:
    assert parse_offset_or_time("1700000000123") == Bound.at_offset(1_700_000_000_123)
    assert parse_offset_or_time("2023-11-14T22:13:20Z") == Bound.at_time(START_NS)
    assert parse_offset_or_time("earliest") == EARLIEST
    with pytest.raises(BoundError, match="'last week' is neither an offset nor a time"):
        parse_offset_or_time("last week")


@given(st.datetimes(timezones=st.just(UTC)))
def test_each_time_is_exact_to_the_microsecond(moment: datetime) -> None:
    seconds, microseconds = divmod(parse_time(moment.isoformat()).value // 1000, 10**6)
    days = (moment.date() - datetime(1970, 1, 1, tzinfo=UTC).date()).days
    assert seconds == days * 86400 + moment.hour * 3600 + moment.minute * 60 + moment.second
    assert microseconds == moment.microsecond


def resolved(
    reader: LogReader,
    starting: Bound = EARLIEST,
    ending: Bound = LATEST,
    if_none_later: IfNoneLater = IfNoneLater.ERROR,
) -> ResolvedRange:
    return resolve_range(reader, "orders", starting, ending, if_none_later)


def test_a_range_is_what_is_there_and_durable(reader: LogReader) -> None:
    assert resolved(reader) == ResolvedRange(100, 400)
    assert resolved(reader, Bound.at_offset(150), Bound.at_offset(160)) == ResolvedRange(150, 160)
    assert resolved(reader, Bound.at_offset(150), Bound.at_offset(OFFSET_MAX)) == ResolvedRange(
        150, 400
    )
    assert resolved(reader, Bound.at_offset(400)) == ResolvedRange(400, 400)
    assert resolved(reader, LATEST) == ResolvedRange(400, 400)


def test_what_retention_took_is_told(reader: LogReader) -> None:
    assert resolved(reader, Bound.at_offset(0)) == ResolvedRange(100, 400, (0, 100))
    assert resolved(reader, Bound.at_offset(20), Bound.at_offset(30)) == ResolvedRange(
        100, 100, (20, 30)
    )
    assert resolved(reader, Bound.at_offset(30), Bound.at_offset(30)) == ResolvedRange(100, 100)


def test_a_start_behind_the_durable_end_is_refused(reader: LogReader) -> None:
    with pytest.raises(
        RangeError, match=r"offset 401 of queue 'orders' is after the durable end 400"
    ):
        resolved(reader, Bound.at_offset(401))


def test_a_reversed_range_is_refused(reader: LogReader) -> None:
    with pytest.raises(RangeError, match="begins at 160, after its end 150"):
        resolved(reader, Bound.at_offset(160), Bound.at_offset(150))
    with pytest.raises(
        RangeError, match=r"2023-11-14T22:13:20\+00:00, after its end 2023-11-14T22:13:19"
    ):
        resolved(reader, Bound.at_time(START_NS), Bound.at_time(START_NS - 10**9))


def test_bounds_of_two_kinds_that_meet_make_an_empty_range(reader: LogReader) -> None:
    assert resolved(reader, Bound.at_offset(300), Bound.at_time(time_of(200))) == ResolvedRange(
        300, 300
    )


@pytest.mark.parametrize(
    ("timestamp_ns", "offset"),
    [
        (0, 100),
        (time_of(150) - 1, 150),
        (time_of(150), 150),
        (time_of(150) + 1, 200),
        (time_of(350), 350),
    ],
)
def test_a_time_is_the_first_offset_at_or_after_it(
    reader: LogReader, timestamp_ns: int, offset: int
) -> None:
    time = Bound.at_time(timestamp_ns)
    assert resolved(reader, time) == ResolvedRange(offset, 400)
    assert resolved(reader, EARLIEST, time) == ResolvedRange(100, offset)


def test_a_time_behind_all_messages_is_an_error_or_the_end(reader: LogReader) -> None:
    late = Bound.at_time(time_of(399) + 1)
    with pytest.raises(RangeError, match=r"has no message from 2023-11-14T.* or later"):
        resolved(reader, late)
    assert resolved(reader, late, LATEST, IfNoneLater.LATEST) == ResolvedRange(400, 400)
    assert resolved(reader, EARLIEST, late) == ResolvedRange(100, 400)
    assert resolved(reader, EARLIEST, Bound.at_time(10**30)) == ResolvedRange(100, 400)


def test_a_queue_without_messages_is_an_empty_range(tmp_path: Path) -> None:
    with LogReader(tmp_path / "none") as empty:
        assert resolved(empty) == ResolvedRange(0, 0)
        assert resolved(empty, Bound.at_offset(0), Bound.at_offset(9)) == ResolvedRange(0, 0)
