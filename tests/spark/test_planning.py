from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog.spark.errors import DataLossError, OutputError, RangeError
from appendlog.spark.exporting.export_plan import ExportPlan, plan_export, subtract
from tests.spark.builders import StoredQueue, plain_messages, store_queue


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path, segment_bytes=4096)
    queue.append(plain_messages(300), step=10)
    yield queue
    queue.close()


def offsets(plan: ExportPlan) -> set[int]:
    found: set[int] = set()
    for split in plan.splits:
        piece = set(range(split.start_offset, split.end_offset))
        assert not found & piece
        found |= piece
    return found


EDGES = st.lists(st.integers(0, 60), unique=True, max_size=8).map(sorted)


@given(st.integers(0, 60), st.integers(0, 60), EDGES)
def test_what_is_missing_is_the_range_without_what_is_covered(
    start: int, end: int, edges: list[int]
) -> None:
    covered = list(zip(edges[::2], edges[1::2], strict=False))
    missing = subtract(start, end, covered)
    there = {offset for begin, stop in covered for offset in range(begin, stop)}
    found = [offset for begin, stop in missing for offset in range(begin, stop)]
    assert found == [offset for offset in range(start, end) if offset not in there]
    assert all(begin < stop for begin, stop in missing)


def test_splits_tile_what_is_asked_for(stored: StoredQueue) -> None:
    plan = plan_export(stored.location, [], 7, 290, part_bytes=1)
    assert offsets(plan) == set(range(7, 290))
    assert len(plan.splits) > len(stored.segments()) > 2


def test_everything_is_planned_by_default(stored: StoredQueue) -> None:
    plan = plan_export(stored.location, [])
    assert offsets(plan) == set(range(300))
    assert plan.offset_count == 300


def test_what_the_output_has_is_left_out(stored: StoredQueue) -> None:
    plan = plan_export(stored.location, [(0, 50), (100, 200)], part_bytes=500)
    assert offsets(plan) == {*range(50, 100), *range(200, 300)}


def test_nothing_is_planned_when_the_output_has_it_all(stored: StoredQueue) -> None:
    assert not plan_export(stored.location, [(0, 300)]).splits
    assert not plan_export(stored.location, [(0, 300)], 10, 20).splits
    assert not plan_export(stored.location, [], since=300).splits
    assert not plan_export(stored.location, [], since=10_000).splits


def test_a_log_without_a_message_has_nothing(tmp_path: Path) -> None:
    queue = store_queue(tmp_path)
    assert not plan_export(queue.location, []).splits
    queue.close()


def test_what_is_not_synced_is_not_planned(stored: StoredQueue) -> None:
    stored.append(plain_messages(20), sync=False)
    plan = plan_export(stored.location, [])
    assert stored.log.log_end_offset == 320
    assert (plan.durable_end, offsets(plan)) == (300, set(range(300)))


@pytest.mark.parametrize(("since", "until"), [(None, 301), (200, 100), (None, 10_000)])
def test_a_range_that_is_none_is_refused(
    stored: StoredQueue, since: int | None, until: int
) -> None:
    with pytest.raises(RangeError):
        plan_export(stored.location, [], since, until)


def removed_start(stored: StoredQueue) -> int:
    stored.log.remove_settled(150)
    start = stored.log.log_start_offset
    assert 0 < start < 200
    return start


def test_the_default_begins_where_the_log_begins(stored: StoredQueue) -> None:
    start = removed_start(stored)
    assert offsets(plan_export(stored.location, [])) == set(range(start, 300))


def test_what_retention_took_between_two_exports_is_data_loss(stored: StoredQueue) -> None:
    start = removed_start(stored)
    with pytest.raises(DataLossError) as caught:
        plan_export(stored.location, [(0, 10)])
    assert (caught.value.start, caught.value.end) == (10, start)
    assert f"--since {start}" in str(caught.value)


def test_what_is_gone_but_exported_is_no_loss(stored: StoredQueue) -> None:
    removed_start(stored)
    assert offsets(plan_export(stored.location, [(0, 250)])) == set(range(250, 300))


def test_a_start_that_is_gone_is_data_loss_when_asked_for(stored: StoredQueue) -> None:
    start = removed_start(stored)
    with pytest.raises(DataLossError):
        plan_export(stored.location, [], since=0)
    assert offsets(plan_export(stored.location, [], since=start)) == set(range(start, 300))


def test_an_output_that_is_ahead_of_the_log_is_refused(stored: StoredQueue) -> None:
    with pytest.raises(OutputError, match="durable end 300"):
        plan_export(stored.location, [(0, 301)])
