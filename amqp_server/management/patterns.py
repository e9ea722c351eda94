"""Regular expressions of clients: bounded in what they cost to compile and to search."""

from __future__ import annotations

import re
import warnings
from typing import Final

import regex

CHARACTERS_MAX: Final = 1000
"""Longest expression, unless another bound is given."""
REPEATS_MAX: Final = 32_768
"""Largest product of an expression's length and its repeat counts: about 20 ms to compile."""
SEARCH_SECONDS_MAX: Final = 0.005
"""Longest search in one name. One that recurses takes 100 MB a second until it is stopped."""
_REPEAT: Final = re.compile(r"\{\s*(\d*)\s*,?\s*(\d*)\s*\}")
_DIGITS_MAX: Final = 9


class InvalidPatternError(ValueError):
    """The text is no regular expression, or one that would cost too much; says which."""


def compile_pattern(
    text: str, *, ignores_case: bool = True, characters_max: int = CHARACTERS_MAX
) -> regex.Pattern[str]:
    """Compile a client's expression.

    Args:
        text: The expression.
        ignores_case: Whether it finds letters in any case.
        characters_max: Longest expression.

    Raises:
        InvalidPatternError: It is none, or costs too much.
    """
    if len(text) > characters_max:
        raise InvalidPatternError("too long")
    if _repeats(text) > REPEATS_MAX:
        raise InvalidPatternError("repeats too often")
    flags = regex.V0 | (regex.IGNORECASE if ignores_case else 0)
    try:
        with warnings.catch_warnings():
            # The library warns of what later versions may read in another way.
            warnings.simplefilter("ignore")
            return regex.compile(text, flags, cache_pattern=False)
    except regex.error as error:
        raise InvalidPatternError(str(error)) from error
    except (RecursionError, OverflowError, MemoryError, ValueError) as error:
        raise InvalidPatternError("nested too deeply, or too large") from error


def _repeats(text: str) -> int:
    cost = len(text) or 1
    for low, high in _REPEAT.findall(text):
        cost *= max(int(low[:_DIGITS_MAX] or 1), int(high[:_DIGITS_MAX] or 1), 1)
        if cost > REPEATS_MAX:
            break
    return cost
