"""Lists: filtered by name, sorted, cut into pages, and written in short steps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import orjson

from amqp_server.management.http.answers import JSON, AnyAnswer, ApiError, Octets, bad_request
from amqp_server.management.http.columns import select_columns, value_at
from amqp_server.management.http.list_query import ListQuery, Page, parse_list_query
from amqp_server.management.patterns import (
    SEARCH_SECONDS_MAX,
    InvalidPatternError,
    compile_pattern,
)

STEP_SECONDS: Final = 0.002
"""Longest work on one list before other requests have their turn."""
PATTERN_SECONDS_MAX: Final = 1.0
"""Longest search of all names for a user's regular expression."""
_TOO_SLOW: Final = "the regular expression takes too long"
_SEARCHES: Final = asyncio.Semaphore(2)
"""Searches at a time: the workers have other work."""
_CHUNK: Final = 64
"""Objects that are written in one call."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Shape(Generic[Item]):
    """How the objects of a list are named, sorted and shown.

    Attributes:
        show: Returns an object as the answer has it.
        name: Returns the name by which pages are filtered.
        value: Returns the value of a field, named with dots, by which is sorted; None if it is not
            there.
        order: Fields of the list's own order.
    """

    show: Callable[[Item], Mapping[str, Any]]
    name: Callable[[Item], str]
    value: Callable[[Item, str], Any]
    order: tuple[str, ...] = ("vhost", "name")


def value_of_object(item: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return a field of a plain object, named with dots."""
    return value_at(item, path.split("."))


PLAIN: Final[Shape[Mapping[str, Any]]] = Shape(
    show=lambda item: item,
    name=lambda item: str(item.get("name", "")),
    value=value_of_object,
)
"""The shape of objects that are shown as they are."""


async def list_answer(
    query: Mapping[str, str],
    items: Sequence[Item],
    shape: Shape[Item],
    *,
    is_paged: bool = True,
) -> AnyAnswer:
    """Return a list as a client has asked for it.

    Args:
        query: Fields of the request's query.
        items: Objects that the user sees; not changed.
        shape: How they are shown.
        is_paged: Whether clients may ask for pages of this list.

    Raises:
        ApiError: The page does not exist, or a field of the query is not valid.
    """
    asked = parse_list_query(query)
    page = asked.page if is_paged else None
    chosen = items
    if page is not None and page.name:
        chosen = await _named(items, page, shape)
    ordered = await _sorted(chosen, asked, shape)
    if page is None:
        return Octets(HTTPStatus.OK, JSON, await write_list(ordered, shape, asked))
    begin = (page.number - 1) * page.size
    if begin >= len(ordered) and page.number > 1:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            "page_out_of_range",
            f"Page out of range, page: {page.number} page size: {page.size}, len: {len(ordered)}",
        )
    shown = ordered[begin : begin + page.size]
    head = orjson.dumps(
        {"filtered_count": len(ordered), "item_count": len(shown)},
    )
    tail = orjson.dumps(
        {
            "page": page.number,
            "page_count": -(-len(ordered) // page.size),
            "page_size": page.size,
            "total_count": len(items),
        }
    )
    body = await write_list(shown, shape, asked)
    return Octets(HTTPStatus.OK, JSON, b"".join((head[:-1], b',"items":', body, b",", tail[1:])))


async def write_list(items: Sequence[Item], shape: Shape[Item], asked: ListQuery) -> bytes:
    """Return objects as a JSON list; other requests have their turn meanwhile."""
    parts: list[bytes] = []
    columns = asked.columns
    pause = Pause()
    for begin in range(0, len(items), _CHUNK):
        chunk = [
            select_columns(shape.show(item), columns) for item in items[begin : begin + _CHUNK]
        ]
        parts.append(orjson.dumps(chunk, option=orjson.OPT_NON_STR_KEYS)[1:-1])
        await pause.if_due()
    return b"[" + b",".join(parts) + b"]"


class Pause:
    """Lets other requests have their turn when a step of long work has taken its time."""

    def __init__(self) -> None:
        self._end = time.perf_counter() + STEP_SECONDS

    async def if_due(self) -> None:
        """Let others have their turn, if the step has taken long enough."""
        if time.perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = time.perf_counter() + STEP_SECONDS


async def _named(items: Sequence[Item], page: Page, shape: Shape[Item]) -> list[Item]:
    """Return the objects whose names contain or match a text.

    Raises:
        ApiError: It is no regular expression, or the search takes too long.
    """
    names = [shape.name(item) for item in items]
    if page.is_pattern:
        async with _SEARCHES:
            wanted = await asyncio.to_thread(_search, page.name, names)
        return [items[number] for number in wanted]
    text = page.name.lower()
    return [item for item, name in zip(items, names, strict=True) if text in name.lower()]


def _search(text: str, names: Sequence[str]) -> list[int]:
    """Return the places of names that match a regular expression, in bounded time."""
    end = time.monotonic() + PATTERN_SECONDS_MAX
    try:
        pattern = compile_pattern(text)
        found: list[int] = []
        for number, name in enumerate(names):
            if pattern.search(name, timeout=SEARCH_SECONDS_MAX, concurrent=True):
                found.append(number)
            if time.monotonic() > end:
                raise bad_request(_TOO_SLOW)
    except TimeoutError:
        raise bad_request(_TOO_SLOW) from None
    except InvalidPatternError:
        raise bad_request("Pagination parameters are invalid") from None
    return found


async def _sorted(items: Sequence[Item], asked: ListQuery, shape: Shape[Item]) -> Sequence[Item]:
    if asked.sort == "":
        return items
    # What is equal there stays in the list's own order.
    paths = shape.order if asked.sort is None else (asked.sort, *shape.order)
    keys: list[tuple[Any, ...]] = []
    pause = Pause()
    for number, item in enumerate(items):
        keys.append(tuple(_rank(shape.value(item, path)) for path in paths))
        if number % _CHUNK == 0:
            await pause.if_due()
    numbers = sorted(range(len(items)), key=keys.__getitem__, reverse=asked.is_reversed)
    return [items[number] for number in numbers]


def _rank(value: object) -> tuple[int, Any]:
    """Return what makes values of any type comparable, in Erlang's order of types."""
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, str(value).lower()
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 3, value
    return 2, orjson.dumps(value, default=str)
