import time
from pathlib import Path

from offsets import LogRoot
from tests.appendlog.builders import flip
from tests.embedded.consumers import SMALL_SEGMENTS, consumer, drain, fill


def test_a_log_tells_what_it_holds_and_what_was_done(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path, SMALL_SEGMENTS) as root:
        fill(root, "events", 40)
        fill(root, "other", 1)
        root.append("events", b"in memory")
        assert list(root.statistics("ev*")) == ["events"]
        found = root.statistics()["events"]
        log = root.log("events").log
        assert (found.records, found.first_offset, found.last_offset) == (40, 0, 39)
        assert (found.log_start_offset, found.recovery_point) == (0, 40)
        assert (found.log_end_offset, found.appended) == (41, 41)
        assert 0 < found.batch_bytes < found.appended_bytes
        assert found.body_bytes == sum(len(b"%d" % number) for number in range(40))
        assert found.disk_bytes == log.size_bytes > found.body_bytes
        assert found.segments == len(log.segments) > 5
        assert found.first_timestamp_ns is not None
        assert found.last_timestamp_ns is not None
        assert 0 < found.first_timestamp_ns <= found.last_timestamp_ns
        assert found.index_entries >= found.segments - 1
        assert found.index_bytes > 0
        assert (found.syncs, found.removed_bytes, found.cut_bytes) == (1, 0, 0)
        assert found.damaged_chunks == 0
        root.log("events").remove_below(20)
        found = root.statistics()["events"]
        assert found.first_offset is not None
        assert 0 < found.first_offset <= 20
        assert found.log_start_offset == found.first_offset
        assert found.removed_bytes > 600
        assert found.records == 40 - found.first_offset


def test_a_log_tells_of_its_groups(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path, SMALL_SEGMENTS) as root:
        fill(root, "events", 40)
        with consumer(root, "a") as reader:
            reader.ack_range("events", 0, 10)
            reader.ack_range("events", 20, 25)
        consumer(root, "b").close()
        root.log("events").remove_below(20)
        start = root.log("events").log.log_start_offset
        with consumer(root, "b") as reader:
            drain(reader)
        groups = root.statistics()["events"].groups
    assert sorted(groups) == ["a", "b"]
    assert (groups["a"].committed, groups["a"].acked_ahead) == (10, 5)
    assert groups["a"].lag == 40 - start
    assert groups["b"].dropped_total == start > 10
    moved_at_ns = groups["a"].updated_at_ns
    assert moved_at_ns is not None
    assert 0 <= time.time_ns() - moved_at_ns < 3600 * 10**9


def test_damage_and_a_torn_tail_are_counted(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path, SMALL_SEGMENTS) as root:
        fill(root, "events", 40)
    segments = sorted(tmp_path.rglob("*.log"))
    segments = [each for each in segments if "events" in str(each)]
    flip(segments[1], 300)
    with segments[-1].open("ab") as file:
        file.write(b"AQLC half a chunk")
    with LogRoot.open(tmp_path, SMALL_SEGMENTS) as root:
        log = root.log("events").log
        log.read(0, 1 << 20, 1_000)
        found = root.statistics()["events"]
        assert found.damaged_chunks == 1
        assert found.cut_bytes == 17


def test_a_log_without_records_has_no_first_and_no_last(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path, SMALL_SEGMENTS) as root:
        root.append("events", b"in memory")
        found = root.statistics()["events"]
        assert (found.records, found.log_start_offset, found.log_end_offset) == (0, 0, 1)
        assert (found.first_offset, found.last_offset) == (None, None)
        assert (found.first_timestamp_ns, found.last_timestamp_ns) == (None, None)
