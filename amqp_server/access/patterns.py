"""Regular expressions of permissions and policies: searched in a name, and bounded.

RabbitMQ's are PCRE. The library `regex` has what definitions use of it: lookahead, possessive
repeats, POSIX classes, Unicode properties. docs/users.md lists what differs.

A pattern may take exponential time to search and a lot of memory to compile. So the repeats of a
pattern are bounded when it is compiled, and a search that takes too long counts as no match.
"""

from __future__ import annotations

import logging
import re
import warnings
from functools import lru_cache
from typing import Final

import regex

logger = logging.getLogger("amqp_server.access.patterns")

PATTERN_BYTES_MAX: Final = 4096
"""Longest pattern in octets."""
COST_MAX: Final = 32_768
"""Largest product of a pattern's length and its repeat counts: about 20 ms to compile."""
SEARCH_SECONDS_MAX: Final = 0.005
"""Longest search. It runs on the event loop, so it must be short."""

_COMPILED_MAX: Final = 512
_REPEAT: Final = re.compile(r"\{\s*(\d*)\s*,?\s*(\d*)\s*\}")
_LOGGED_CHARACTERS_MAX: Final = 64
_MATCHING_ALL: Final = (".*", "^.*", ".*$")


class InvalidPatternError(ValueError):
    """The text is no pattern, or one that would cost too much."""


class Pattern:
    """A compiled pattern.

    Attributes:
        text: The pattern as it was given; `""` means `^$`, as in RabbitMQ.
        matches_all: Whether every name matches, as far as this can be seen at a glance.
        slow_count: Searches that took too long.
    """

    __slots__ = ("_compiled", "matches_all", "slow_count", "text")

    def __init__(self, text: str) -> None:
        """Compile a pattern; takes up to 20 ms, usually 0.2.

        Raises:
            InvalidPatternError: The text is no pattern, or costs too much.
        """
        self.text = text
        self.matches_all = text in _MATCHING_ALL
        self.slow_count = 0
        if len(text.encode("utf-8", "surrogatepass")) > PATTERN_BYTES_MAX:
            raise InvalidPatternError(f"a pattern has at most {PATTERN_BYTES_MAX} bytes")
        cost = _cost(text)
        if cost > COST_MAX:
            raise InvalidPatternError(
                f"its repeats make it too large: length times all counts is {cost}, "
                f"at most {COST_MAX} is allowed"
            )
        try:
            with warnings.catch_warnings():
                # The library warns of what later versions may read in another way.
                warnings.simplefilter("ignore")
                # Not kept in the library's cache: it is larger than it needs to be, and global.
                self._compiled = regex.compile(text or "^$", regex.V0, cache_pattern=False)
        except regex.error as error:
            raise InvalidPatternError(str(error)) from error
        except (RecursionError, OverflowError, MemoryError, ValueError) as error:
            raise InvalidPatternError("it is nested too deeply, or too large") from error

    def search(self, name: str) -> bool:
        """Return whether the pattern occurs in a name; False if that takes too long to find out."""
        if self.matches_all:
            return True
        try:
            return self._compiled.search(name, timeout=SEARCH_SECONDS_MAX) is not None
        except TimeoutError:
            reason = f"takes longer than {SEARCH_SECONDS_MAX * 1000:.0f} ms"
        except (RecursionError, MemoryError):
            reason = "takes too much memory"
        self.slow_count += 1
        if self.slow_count == 1:
            # Once for each pattern: a client may ask again and again.
            logger.warning(
                "pattern denied pattern=%r name=%r reason=%s",
                self.text[:_LOGGED_CHARACTERS_MAX],
                name[:_LOGGED_CHARACTERS_MAX],
                reason,
            )
        return False


@lru_cache(_COMPILED_MAX)
def compiled(text: str) -> Pattern:
    """Return the pattern of a text, which is remembered. Any thread may call it.

    A command that sets a pattern calls it in a worker: the event loop need not compile it then.

    Raises:
        InvalidPatternError: As `Pattern`.
    """
    return Pattern(text)


def _cost(text: str) -> int:
    cost = len(text) or 1
    for low, high in _REPEAT.findall(text):
        cost *= max(int(low[:9] or 1), int(high[:9] or 1), 1)
        if cost > COST_MAX:
            break
    return cost
