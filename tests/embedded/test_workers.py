from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.consuming.workers import check_worker, is_of_worker


@given(st.text(max_size=30), st.integers(1, 50))
def test_every_log_has_exactly_one_worker(name: str, total: int) -> None:
    assert sum(is_of_worker(name, (number, total)) for number in range(total)) == 1


@pytest.mark.parametrize(("logs", "total"), [(8, 4), (10, 4), (3, 5)])
def test_numbered_logs_are_shared_out_evenly(logs: int, total: int) -> None:
    counts = Counter(
        next(each for each in range(total) if is_of_worker(f"events-{number:04}", (each, total)))
        for number in range(logs)
    )
    sizes = [counts[each] for each in range(total)]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("worker", [(1, 1), (-1, 2), (0, 0)])
def test_a_worker_that_is_none_of_its_total_is_refused(worker: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="worker"):
        check_worker(worker)
