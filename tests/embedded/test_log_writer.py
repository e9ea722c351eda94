import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog import (
    DURABLE,
    Compression,
    EmbeddedOptions,
    LogClosedError,
    LogFailedError,
    LogFollower,
    LogWriter,
    Record,
    RecordTooLargeError,
)
from appendlog.embedded import log_writer
from appendlog.embedded.batch import Batch
from appendlog.embedded.periodic import sync_all
from appendlog.embedded.records import message_prefix
from appendlog.layout.chunk import decode_chunk_header
from appendlog.segments.chunk_walk import walk
from tests.embedded.logs import BY_HAND, IDENTITY, open_writer, payloads, read_on
from tests.embedded.waiting import until
from tests.faults.faulty_filesystem import FaultyFileSystem


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def test_a_batch_is_told_its_first_and_last_offset(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        assert writer.append_batch(numbers(0, 3)) == (0, 2)
        assert writer.append(b"3") == 3
        assert writer.append_records([Record(b"4")]) == (4, 4)
        assert writer.end_offset == 5


def test_records_come_back_with_key_headers_offset_and_time(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        writer.append(b"one", b"k1", {"n": 1})
        writer.append_batch([b"two", b"three"], b"k2")
        writer.append_records([Record(b"four", b"k3"), Record(b"", headers={})])
    with LogFollower(tmp_path) as follower:
        found = read_on(follower)
    assert [(r.offset, r.payload, r.key, r.headers) for r in found] == [
        (0, b"one", b"k1", {"n": 1}),
        (1, b"two", b"k2", None),
        (2, b"three", b"k2", None),
        (3, b"four", b"k3", None),
        (4, b"", b"", {}),
    ]
    times = [record.timestamp_ns for record in found]
    assert times == sorted(times)
    assert found[1].timestamp_ns == found[2].timestamp_ns


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        writer.append_batch(numbers(0, 10))
    with open_writer(tmp_path) as writer:
        assert writer.append(b"10") == 10
    assert payloads(tmp_path) == dict(enumerate(numbers(0, 11)))


def test_readers_see_what_was_synced_and_no_more(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    writer.append_batch(numbers(0, 5))
    assert payloads(tmp_path) == {}
    assert writer.flush() == 5
    assert payloads(tmp_path) == {}
    assert writer.sync() == 5
    writer.append(b"5")
    assert payloads(tmp_path) == dict(enumerate(numbers(0, 5)))
    writer.close()
    assert payloads(tmp_path) == dict(enumerate(numbers(0, 6)))


def test_each_append_is_on_the_disk_when_the_options_say_so(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, DURABLE)
    for number in range(3):
        assert writer.append(b"%d" % number) == number
        assert writer.recovery_point == number + 1
    writer.append_batch(numbers(3, 6))
    assert payloads(tmp_path) == dict(enumerate(numbers(0, 6)))


def test_the_append_that_fills_the_batch_writes_it(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, replace(BY_HAND, batch_bytes=1_000))
    while writer.statistics().flushed_batches == 0:
        writer.append(b"x" * 90)
    assert writer.log.log_end_offset == writer.end_offset == 10
    assert writer.recovery_point == 0


def test_the_append_that_makes_sync_bytes_syncs(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, replace(BY_HAND, sync_bytes=1_000))
    while writer.recovery_point == 0:
        writer.append(b"x" * 90)
    assert writer.recovery_point == writer.end_offset == 10
    writer.append(b"y")
    assert writer.statistics().syncs == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "extend", "extend_payloads"]),
            st.lists(st.binary(max_size=60), min_size=1, max_size=9),
            st.integers(0, 2**33),
        ),
        max_size=12,
    ),
    st.integers(1, 600),
)
def test_chunks_hold_every_record_in_order_with_its_time(
    batches: list[tuple[str, list[bytes], int]], chunk_bytes: int
) -> None:
    batch = Batch(IDENTITY.salt, 7, chunk_bytes)
    prefix = message_prefix(b"key")
    time_ns = 1
    expected: list[tuple[int, bytes]] = []
    for way, bodies, later_ns in batches:
        time_ns += later_ns
        messages = [prefix + body for body in bodies]
        size = sum(map(len, messages))
        if way == "add":
            for each in messages:
                batch.add(each, time_ns)
        elif way == "extend":
            batch.extend(messages, size, time_ns)
        else:
            batch.extend_payloads(bodies, prefix, size, time_ns)
        expected += [(time_ns, message) for message in messages]
    assert batch.size_bytes == sum(len(message) for _, message in expected)
    chunks, end = batch.chunks()
    assert end == 7 + len(expected)
    assert [found for chunk in chunks for found in records_in(chunk)] == expected
    offset = 7
    for header in map(decode_chunk_header, chunks):
        assert header.base_offset == offset
        offset = header.end_offset
    batch.remove_written(end)
    assert (batch.size_bytes, batch.chunks()) == (0, ([], end))


def records_in(chunk: bytes) -> list[tuple[int, bytes]]:
    """Return time and message of each record."""
    found = walk(chunk, 0, len(chunk), IDENTITY.salt, 0, 1 << 60, 1000, 1 << 30)
    return [
        (time_ns, message)
        for part in found.parts
        for time_ns, message in zip(part.timestamps_ns, part.messages(), strict=True)
    ]


def test_times_do_not_go_back_with_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_writer(tmp_path)
    clock = iter([1_000, 500, 2_000])
    monkeypatch.setattr("time.time_ns", lambda: next(clock))
    for number in range(3):
        writer.append(b"%d" % number)
    monkeypatch.undo()
    writer.close()
    with LogFollower(tmp_path) as follower:
        assert [each.timestamp_ns for each in read_on(follower)] == [1_000, 1_000, 2_000]


def test_times_step_back_with_a_clock_that_is_set_back_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a chunk, one by one and many at once."""
    now_ns = 10**18
    monkeypatch.setattr("time.time_ns", lambda: now_ns)
    writer = open_writer(tmp_path)
    times = [10**18 + 10**17, 10**18, 10**18 + 1, 10**18 - 10**17, 10**18 - 10**17 + 5]
    for number, now_ns in enumerate(times):  # noqa: B007 - the clock shows it
        if number % 3:
            writer.append(b"one")
        else:
            writer.append_batch([b"two", b"three"])
    writer.close()
    bases = [segment.base_offset for segment in writer.log.segments]
    assert bases == [0, 2, 4]
    with LogFollower(tmp_path) as follower:
        found = [each.timestamp_ns for each in read_on(follower)]
        assert found == [times[0]] * 2 + [times[1], times[2]] + [times[3]] * 2 + [times[4]]
        assert follower.first_offset_at(times[0]) == 0
        assert follower.first_offset_at(times[0] + 1) == 7


def test_threads_that_append_together_get_each_offset_once(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, replace(DURABLE, batch_bytes=500))
    given_out: dict[int, bytes] = {}

    def work(name: int) -> None:
        for number in range(40):
            payload = b"%d-%d" % (name, number)
            given_out[writer.append(payload)] = payload

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert payloads(tmp_path) == dict(sorted(given_out.items()))
    assert len(given_out) == 160
    writer.close()


def test_compressed_records_come_back_and_take_less_room(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    for directory, compression in ((plain, Compression.NONE), (packed, Compression.ZSTD)):
        with open_writer(directory, replace(BY_HAND, compression=compression)) as writer:
            writer.append_batch([b"the same again and again"] * 500)
            size = writer.flush() and writer.log.size_bytes
        assert size
    assert payloads(plain) == payloads(packed)
    sizes = [max(each.glob("*.log")).stat().st_size for each in (plain, packed)]
    assert sizes[1] < sizes[0] / 3


@pytest.mark.parametrize("is_batch", [True, False])
def test_what_is_refused_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_batch: bool
) -> None:
    monkeypatch.setattr(log_writer, "MESSAGE_BYTES_MAX", 100)
    writer = open_writer(tmp_path)
    with pytest.raises(RecordTooLargeError, match="110 bytes, the maximum is 100"):
        writer.append_batch([b"ok", b"x" * 100]) if is_batch else writer.append(b"x" * 100)
    with pytest.raises(ValueError, match="maximum is 255"):
        writer.append(b"", b"k" * 256)
    with pytest.raises(ValueError, match="at least one record"):
        writer.append_batch([])
    with pytest.raises(TypeError):
        writer.append_batch([b"ok", "text"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        writer.append_batch([b"x" * 90] * 2_000 + ["text"])  # type: ignore[list-item]
    assert writer.append(b"0") == 0


def test_a_closed_writer_takes_nothing(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    writer.append(b"0")
    writer.close()
    writer.close()
    for use in (lambda: writer.append(b"1"), writer.sync, writer.flush, writer.roll):
        with pytest.raises(LogClosedError):
            use()
    assert payloads(tmp_path) == {0: b"0"}


def test_a_failed_sync_is_final(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    writer = open_writer(tmp_path, filesystem=filesystem)
    writer.append(b"0")
    writer.sync()
    writer.append(b"1")
    filesystem.fail_at = len(filesystem.operations)
    with pytest.raises(LogFailedError):
        writer.sync()
    with pytest.raises(LogFailedError):
        writer.append(b"2")
    with pytest.raises(LogFailedError):
        writer.close()
    assert payloads(tmp_path)[0] == b"0"


@pytest.mark.crash
def test_a_power_cut_at_any_operation_loses_nothing_synced(tmp_path: Path) -> None:
    options = replace(BY_HAND, batch_bytes=300, segment_bytes=900)
    number = 0
    while True:
        root = tmp_path / str(number)
        root.mkdir()
        filesystem = FaultyFileSystem(root, number)
        synced = append_some(root / "log", options, filesystem)
        filesystem.power_cut()
        with open_writer(root / "log", options) as again:
            end = again.append(b"new")
        assert end >= synced
        assert payloads(root / "log") == {
            **{each: b"%08d" % each for each in range(end)},
            end: b"new",
        }
        if len(filesystem.operations) <= number:
            break
        number += 1
    assert number > 20


def append_some(directory: Path, options: EmbeddedOptions, filesystem: FaultyFileSystem) -> int:
    """Return the offset below which everything was synced before it failed."""
    synced = 0
    with suppress(LogFailedError):
        writer = open_writer(directory, options, filesystem)
        for number in range(40):
            assert writer.append(b"%08d" % number) == number
            if number % 7 == 0:
                synced = writer.sync()
    return synced


def test_an_append_is_on_the_disk_soon_though_nobody_asks_for_it(tmp_path: Path) -> None:
    options = replace(BY_HAND, sync_interval_seconds=0.001)
    with LogWriter.open(tmp_path, IDENTITY, options) as writer:
        for number in range(3):
            writer.append(b"%d" % number)
            until(lambda: len(payloads(tmp_path)) == number + 1)  # noqa: B023 - at once
    assert writer.statistics().syncs == 3


def test_a_log_that_cannot_be_synced_holds_up_no_other(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path, error=RuntimeError("a bug"), failing_operations=1)
    bad = open_writer(tmp_path / "bad", filesystem=filesystem)
    good = open_writer(tmp_path / "good")
    for writer in (bad, good):
        writer.append(b"0")
    filesystem.fail_at = len(filesystem.operations)
    sync_all([bad, good])
    assert (bad.recovery_point, good.recovery_point) == (0, 1)
    # It was no error of the disk: the next round tries again.
    sync_all([bad, good])
    assert bad.recovery_point == 1
