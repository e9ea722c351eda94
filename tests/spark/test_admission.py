import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog.spark.source.admission import Limits, TriggerDelay, share_out

WANTED = st.dictionaries(st.text(max_size=2), st.integers(0, 2**62), max_size=6)


@given(st.integers(1, 2**62), WANTED)
def test_shares_are_all_of_the_limit_and_nobody_gets_nothing(
    limit: int, wanted: dict[str, int]
) -> None:
    shares = share_out(limit, wanted)
    asking = sum(want > 0 for want in wanted.values())
    assert shares.keys() == wanted.keys()
    assert sum(shares.values()) == min(sum(wanted.values()), max(limit, asking))
    assert all(min(want, 1) <= shares[name] <= want for name, want in wanted.items())


@given(st.integers(1, 10_000), st.lists(st.integers(1, 10_000), min_size=1, max_size=5))
def test_shares_are_in_proportion(limit: int, wants: list[int]) -> None:
    wanted = {str(at): want for at, want in enumerate(wants)}
    total = sum(wants)
    for name, share in share_out(limit, wanted).items():
        fair = min(limit, total) * wanted[name] / total
        assert abs(share - fair) <= 1 + len(wants)


@given(WANTED, st.integers(1, 50))
def test_the_order_of_queues_does_not_matter(wanted: dict[str, int], limit: int) -> None:
    assert share_out(limit, wanted) == share_out(limit, dict(reversed(wanted.items())))


@pytest.mark.parametrize(
    ("limit", "wanted", "shares"),
    [
        (100, {"a": 300, "b": 100}, {"a": 75, "b": 25}),
        (1000, {"a": 300, "b": 100}, {"a": 300, "b": 100}),
        (10, {"a": 1_000_000, "b": 1, "c": 0}, {"a": 9, "b": 1, "c": 0}),
        (2, {"a": 9, "b": 9, "c": 9}, {"a": 1, "b": 1, "c": 1}),
        (5, {}, {}),
    ],
)
def test_shares_of_some_limits(limit: int, wanted: dict[str, int], shares: dict[str, int]) -> None:
    assert share_out(limit, wanted) == shares


class Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


LIMITS = Limits(offsets_min=100, delay_seconds_max=60)


def test_a_batch_waits_for_enough_offsets_or_long_enough() -> None:
    clock = Clock()
    delay = TriggerDelay(clock)
    clock.seconds += 59
    assert delay.is_waiting(99, LIMITS)
    assert not delay.is_waiting(100, LIMITS)
    clock.seconds += 59
    assert delay.is_waiting(99, LIMITS), "the time begins anew with each batch"
    clock.seconds += 1
    assert not delay.is_waiting(1, LIMITS)
    assert delay.is_waiting(1, LIMITS)


def test_nothing_to_read_neither_waits_nor_begins_the_time_anew() -> None:
    clock = Clock()
    delay = TriggerDelay(clock)
    clock.seconds += 60
    assert not delay.is_waiting(0, LIMITS)
    assert not delay.is_waiting(5, LIMITS)


def test_without_a_least_number_nothing_waits() -> None:
    assert not TriggerDelay(Clock()).is_waiting(1, Limits())
