"""Each preset does what it is for, beside the others with the same records."""

from dataclasses import replace
from pathlib import Path

import pytest

from appendlog import DURABLE, EDGE, STORAGE, THROUGHPUT, EmbeddedOptions
from offsets import Consumer, LogCatalog, LogRoot
from tests.embedded.logs import payloads
from tests.limits import HANG_SECONDS

RECORDS = 5_000


def reading(number: int) -> bytes:
    """Return one that resembles its neighbours, as those of a device do."""
    return b'{"device":"sensor-7","number":%06d,"degrees":%d}' % (number, 20 + number % 3)


def fill(root: LogRoot, count: int = RECORDS) -> None:
    for number in range(count):
        root.append("events", reading(number))


def disk_bytes(path: Path, options: EmbeddedOptions) -> int:
    with LogRoot.open(path, options) as root:
        fill(root)
        root.log("events").sync()
        return root.statistics()["events"].disk_bytes


def test_the_one_for_throughput_leaves_writes_and_syncs_to_the_batch_and_the_clock(
    tmp_path: Path,
) -> None:
    with LogRoot.open(tmp_path, replace(THROUGHPUT, sync_interval_seconds=0.0)) as root:
        fill(root)
        done = root.log("events").statistics()
        assert done.appended == RECORDS
        assert done.flushed_batches <= done.appended_bytes // THROUGHPUT.batch_bytes + 1
        assert done.syncs == 0


def test_the_one_for_storage_takes_a_part_of_the_room(tmp_path: Path) -> None:
    plain = disk_bytes(tmp_path / "throughput", THROUGHPUT)
    assert disk_bytes(tmp_path / "storage", STORAGE) < plain / 4


def test_the_one_for_the_edge_is_bounded_in_memory_and_on_the_disk(tmp_path: Path) -> None:
    """With all bytes a thousandth, so that few records are many."""
    names = ("batch_bytes", "chunk_bytes", "segment_bytes", "retain_bytes", "retain_total_bytes")
    small = replace(
        EDGE,
        sync_bytes=0,
        compression_bytes_min=64,
        **{name: getattr(EDGE, name) >> 10 for name in names},
    )
    with LogRoot.open(tmp_path, small) as root:
        Consumer(tmp_path, "nobody reads", "events").close()
        for number in range(200):
            root.append_batch("events", [reading(number * 100 + at) for at in range(100)])
            assert root.log("events").statistics().batch_bytes <= small.batch_bytes
        assert root.log("events").log.size_bytes > small.retain_bytes * 2
        root.clean_up()
        assert root.log("events").log.size_bytes <= small.retain_bytes + small.segment_bytes * 2
        assert root.statistics()["events"].log_start_offset > 0


def test_the_one_for_the_edge_is_on_the_disk_soon(tmp_path: Path) -> None:
    with (
        LogRoot.open(tmp_path, EDGE) as root,
        Consumer(tmp_path, "g", "events") as before,
    ):
        assert before.poll() is None
        root.append("events", b"a reading")
        with Consumer(tmp_path, "h", "events") as after:
            batch = after.poll(timeout_seconds=HANG_SECONDS)
        assert batch is not None
        assert batch.payloads == [b"a reading"]


@pytest.mark.parametrize(("options", "seen"), [(DURABLE, 3), (THROUGHPUT, 0)])
def test_the_durable_one_has_each_append_on_the_disk(
    tmp_path: Path, options: EmbeddedOptions, seen: int
) -> None:
    with LogRoot.open(tmp_path, replace(options, sync_interval_seconds=0.0)) as root:
        fill(root, 3)
        log = root.log("events")
        assert len(payloads(LogCatalog(tmp_path).find()["events"].directory)) == seen
        assert log.statistics().syncs == seen
