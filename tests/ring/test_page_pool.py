"""Pages are lent, counted, emptied and kept for the next ring."""

import pytest

from ring import PAGE_SLOTS, PagePool
from ring.page_pool import SHORT_SLOTS

lengths = pytest.mark.parametrize("length", [SHORT_SLOTS, PAGE_SLOTS])


@pytest.mark.parametrize(
    ("slots", "length"),
    [
        (1, SHORT_SLOTS),
        (SHORT_SLOTS, SHORT_SLOTS),
        (SHORT_SLOTS + 1, PAGE_SLOTS),
        (PAGE_SLOTS, PAGE_SLOTS),
    ],
)
def test_a_lent_page_has_only_empty_slots(slots: int, length: int) -> None:
    pool = PagePool(bytes_max=1)

    assert pool.lend(slots) == [None] * length
    assert pool.lent_pages == 1


@lengths
def test_a_page_that_comes_back_is_emptied_and_lent_again(length: int) -> None:
    pool = PagePool(bytes_max=1)
    page = pool.lend(length)
    page[0] = page[-1] = b"left behind"

    pool.put_back(page)

    assert pool.lent_pages == 0
    assert pool.lend(length) is page
    assert page == [None] * length


def test_a_short_page_that_was_lengthened_comes_back_as_a_long_one() -> None:
    pool = PagePool(bytes_max=1)
    page = pool.lend(1)
    page[1] = b"stays"

    pool.lengthen(page)

    assert page == [None, b"stays"] + [None] * (PAGE_SLOTS - 2)
    pool.put_back(page)
    assert len(pool.lend(1)) == SHORT_SLOTS
    assert pool.lend(PAGE_SLOTS) is page


def test_two_rings_never_get_the_same_page() -> None:
    pool = PagePool(bytes_max=1)
    first, second = pool.lend(1), pool.lend(1)
    first[0] = b"mine"

    assert second[0] is None
    pool.put_back(first)
    assert pool.lend(1) is first
    assert pool.lend(1) is not first


@lengths
def test_no_more_than_the_spare_slots_are_kept(length: int) -> None:
    pool = PagePool(bytes_max=1, spare_slots_max=2 * length - 1)
    first, second = pool.lend(length), pool.lend(length)

    pool.put_back(first)
    pool.put_back(second)

    assert pool.lent_pages == 0
    assert pool.lend(length) is first
    assert pool.lend(length) is not second
    pool.put_back(first)
    assert pool.lend(length) is first


def test_the_pool_is_over_only_past_its_bytes() -> None:
    pool = PagePool(bytes_max=10)

    pool.held_bytes = 10
    assert not pool.is_over
    pool.held_bytes = 11
    assert pool.is_over
