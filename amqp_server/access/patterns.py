"""Regular expressions of operators, searched in the names of queues and exchanges.

They come from outside, so both their length and the time of a search are bounded. The library
`regex` is used because it can stop a search; Python's own `re` cannot. Its syntax is almost that of
PCRE, which RabbitMQ uses: POSIX classes, atomic groups, possessive quantifiers, recursion.
docs/policies.md lists the differences.
"""

from __future__ import annotations

import logging
from typing import Final

import regex

logger = logging.getLogger(__name__)

PATTERN_CHARACTERS_MAX: Final = 1000
"""Longest pattern: it takes about 6 ms to compile."""
SEARCH_SECONDS_MAX: Final = 0.001
"""Time after which a search in one name ends; the name counts as one that does not match."""
TIMEOUTS_MAX: Final = 8
"""Searches of one pattern that may take too long; afterwards the pattern matches no name."""

_TEXTS: Final = {
    "bad character range": "range out of order in character class",
    "bad escape (end of pattern)": "\\ at end of pattern",
    "min repeat greater than max repeat": "numbers out of order in {} quantifier",
    "unbalanced parenthesis": "unmatched parentheses",
    "unknown extension": "unrecognized character after (? or (?-",
    "unknown group": "reference to non-existent subpattern",
    "unterminated character set": "missing terminating ] for character class",
}
"""PCRE's texts of mistakes, by those of `regex`; the others are equal or have no counterpart."""


class InvalidPatternError(ValueError):
    """The text is no regular expression.

    Attributes:
        reason: What is wrong with it, in PCRE's words if it has some.
        position: Characters before the mistake.
    """

    def __init__(self, reason: str, position: int) -> None:
        # As RabbitMQ shows the answer of Erlang's `re:compile`.
        escaped = reason.replace("\\", "\\\\").replace('"', '\\"')
        super().__init__(f'{{"{escaped}",{position}}}')
        self.reason = reason
        self.position = position


class Pattern:
    """One compiled regular expression. The event loop owns it.

    Make it with `compile`.

    Attributes:
        text: The expression as it was written.
    """

    __slots__ = ("_compiled", "_timeouts", "text")

    def __init__(self, text: str, compiled: regex.Pattern[str]) -> None:
        self.text = text
        self._compiled = compiled
        self._timeouts = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    @classmethod
    def compile(cls, text: str) -> Pattern:
        """Compile an expression; any thread may call it. Takes up to about 6 ms.

        Classes of letters, digits and spaces have those of ASCII only, as in RabbitMQ.

        Raises:
            InvalidPatternError: The text is no regular expression, or longer than
                `PATTERN_CHARACTERS_MAX`.
        """
        if len(text) > PATTERN_CHARACTERS_MAX:
            raise InvalidPatternError("regular expression is too large", PATTERN_CHARACTERS_MAX)
        try:
            compiled = regex.compile(text, regex.ASCII | regex.VERSION0, cache_pattern=False)
        except regex.error as error:
            reason = _TEXTS.get(error.msg, error.msg)
            raise InvalidPatternError(reason, error.pos or 0) from error
        except (RecursionError, OverflowError, MemoryError) as error:
            raise InvalidPatternError("regular expression is too large", len(text)) from error
        return cls(text, compiled)

    def search(self, name: str) -> bool:
        """Return whether the expression is found anywhere in a name. Case counts.

        A search that takes longer than `SEARCH_SECONDS_MAX` counts as no match; the first one is
        logged. After `TIMEOUTS_MAX` of them the pattern matches nothing any more. So one expression
        costs a bounded time, however many names there are.
        """
        if self._timeouts >= TIMEOUTS_MAX:
            return False
        try:
            return self._compiled.search(name, timeout=SEARCH_SECONDS_MAX) is not None
        except TimeoutError:
            self._timeouts += 1
            if self._timeouts == 1:
                logger.warning(
                    "pattern takes too long, so it does not match pattern=%r name=%r",
                    self.text,
                    name,
                )
            elif self._timeouts == TIMEOUTS_MAX:
                logger.warning(
                    "pattern takes too long, so it matches no name any more pattern=%r", self.text
                )
            return False
