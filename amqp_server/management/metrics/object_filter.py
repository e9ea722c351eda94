"""Which virtual hosts and queues a page shows, and a bound for what the search may cost."""

from __future__ import annotations

from collections.abc import Collection
from time import perf_counter
from typing import TYPE_CHECKING, Final

from amqp_server.management.patterns import (
    SEARCH_SECONDS_MAX,
    InvalidPatternError,
    compile_pattern,
)

if TYPE_CHECKING:
    import regex

PATTERN_CHARACTERS_MAX: Final = 2000
"""Longest expression for names of queues, as in RabbitMQ."""
SEARCHES_SECONDS_MAX: Final = 0.5
"""Longest time for the searches of one page, all names together."""


class InvalidFilterError(ValueError):
    """The expression is none, or costs too much; the text is for the client."""


class ObjectFilter:
    """The virtual hosts and queues that a page shows.

    Args:
        vhosts: Names of virtual hosts; None for all.
        queue_pattern: Regular expression that is searched in names of queues; empty for all.

    Raises:
        InvalidFilterError: The expression is none, or too long.
    """

    def __init__(self, vhosts: Collection[str] | None = None, queue_pattern: str = "") -> None:
        self._vhosts = None if vhosts is None else frozenset(vhosts)
        self._pattern = _compile(queue_pattern) if queue_pattern else None
        self._searches_seconds = 0.0

    @property
    def is_searching(self) -> bool:
        """Whether names are searched, which takes time."""
        return self._pattern is not None

    def has_vhost(self, name: str) -> bool:
        """Return whether the page shows a virtual host, its queues and exchanges."""
        return self._vhosts is None or name in self._vhosts

    def has_queue(self, vhost: str, name: str) -> bool:
        """Return whether the page shows a queue.

        Raises:
            InvalidFilterError: The searches take too long.
        """
        if self._vhosts is not None and vhost not in self._vhosts:
            return False
        return self._pattern is None or self._search(self._pattern, name)

    def _search(self, pattern: regex.Pattern[str], name: str) -> bool:
        began = perf_counter()
        try:
            is_found = pattern.search(name, timeout=SEARCH_SECONDS_MAX) is not None
        except TimeoutError as error:
            raise _too_slow() from error
        self._searches_seconds += perf_counter() - began
        if self._searches_seconds > SEARCHES_SECONDS_MAX:
            raise _too_slow()
        return is_found


def _too_slow() -> InvalidFilterError:
    return InvalidFilterError("'queue' regex takes too long to search")


def _compile(text: str) -> regex.Pattern[str]:
    try:
        return compile_pattern(text, ignores_case=False, characters_max=PATTERN_CHARACTERS_MAX)
    except InvalidPatternError as error:
        raise InvalidFilterError(f"Invalid 'queue' regex: {error}") from error
