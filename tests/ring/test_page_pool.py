"""Pages are lent, counted, emptied and kept for the next ring."""

from ring import PAGE_SLOTS, PagePool


def test_a_lent_page_has_only_empty_slots() -> None:
    pool = PagePool(bytes_max=1)

    assert pool.lend() == [None] * PAGE_SLOTS
    assert pool.lent_pages == 1


def test_a_page_that_comes_back_is_emptied_and_lent_again() -> None:
    pool = PagePool(bytes_max=1)
    page = pool.lend()
    page[0] = page[-1] = b"left behind"

    pool.put_back(page)

    assert pool.lent_pages == 0
    assert pool.lend() is page
    assert page == [None] * PAGE_SLOTS


def test_two_rings_never_get_the_same_page() -> None:
    pool = PagePool(bytes_max=1)
    first, second = pool.lend(), pool.lend()
    first[0] = b"mine"

    assert second[0] is None
    pool.put_back(first)
    assert pool.lend() is first
    assert pool.lend() is not first


def test_no_more_than_the_spare_pages_are_kept() -> None:
    pool = PagePool(bytes_max=1, spare_pages_max=1)
    first, second = pool.lend(), pool.lend()

    pool.put_back(first)
    pool.put_back(second)

    assert pool.lent_pages == 0
    assert pool.lend() is first
    assert pool.lend() is not second


def test_the_pool_is_over_only_past_its_bytes() -> None:
    pool = PagePool(bytes_max=10)

    pool.held_bytes = 10
    assert not pool.is_over
    pool.held_bytes = 11
    assert pool.is_over
