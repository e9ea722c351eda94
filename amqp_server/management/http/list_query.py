"""What a client asks of a list: which fields, which order, which page, with or without counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from amqp_server.management.http.answers import ApiError, bad_request

PAGE_SIZE_MAX: Final = 500
PAGE_SIZE_DEFAULT: Final = 100
COLUMNS_MAX: Final = 256
"""Fields that `columns` may name; RabbitMQ's largest object has about 90."""
COLUMN_PARTS_MAX: Final = 32
"""Parts between the dots of one of them."""
_INVALID: Final = "Pagination parameters are invalid"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list.

    Attributes:
        number: From 1.
        size: Objects on a page.
        name: Text that names have to contain, in any case; empty for all.
        is_pattern: Whether that text is a regular expression.
    """

    number: int
    size: int
    name: str
    is_pattern: bool


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a client asks of a list.

    Attributes:
        columns: Fields of the answer, with dots; empty for all.
        sort: Field to sort by, with dots; empty: the order is not changed; None: the list's own.
        is_reversed: Whether the order is reversed.
        page: The page; None for the whole list.
        has_stats: Whether the objects have their counters.
        has_totals: Whether queues without counters have the numbers of their messages.
    """

    columns: tuple[tuple[str, ...], ...]
    sort: str | None
    is_reversed: bool
    page: Page | None
    has_stats: bool
    has_totals: bool


def parse_list_query(query: Mapping[str, str]) -> ListQuery:
    """Return what the fields of a query ask of a list.

    Raises:
        ApiError: A field of paging is not valid, or there are too many columns.
    """
    return ListQuery(
        columns=_parse_columns(query.get("columns", "")),
        sort=query.get("sort"),
        is_reversed=query.get("sort_reverse") == "true",
        page=_parse_page(query),
        has_stats=query.get("disable_stats") != "true",
        has_totals=query.get("enable_queue_totals") == "true",
    )


def _parse_columns(text: str) -> tuple[tuple[str, ...], ...]:
    columns = tuple(tuple(each.split(".")) for each in text.split(",") if each)
    # Each of them is looked for in each object, and an inner one by recursion.
    if len(columns) > COLUMNS_MAX:
        raise bad_request(f"columns names {len(columns)} fields, at most {COLUMNS_MAX} are taken")
    if columns and max(map(len, columns)) > COLUMN_PARTS_MAX:
        raise bad_request(f"columns names a field with more than {COLUMN_PARTS_MAX} parts")
    return columns


def _parse_page(query: Mapping[str, str]) -> Page | None:
    if "page" not in query:
        return None
    try:
        number = int(query["page"])
        size = int(query["page_size"]) if "page_size" in query else None
    except ValueError:
        raise bad_request(_INVALID) from None
    if number < 1 or (size is not None and not 1 <= size <= PAGE_SIZE_MAX):
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            "invalid_pagination_parameters",
            f"Invalid pagination parameters: page number {number}, "
            f"page size {'undefined' if size is None else size}",
        )
    use_regex = query.get("use_regex", "false")
    if use_regex not in ("true", "false"):
        raise bad_request(_INVALID)
    return Page(
        number=number,
        size=PAGE_SIZE_DEFAULT if size is None else size,
        name=query.get("name", ""),
        is_pattern=use_regex == "true",
    )
