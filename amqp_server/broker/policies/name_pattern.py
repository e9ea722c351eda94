"""The pattern of a policy: searched in the names of all queues and exchanges."""

from __future__ import annotations

from typing import Final

import regex

from amqp_server.access.patterns import InvalidPatternError, Pattern

SLOW_MAX: Final = 8
"""Searches that may take too long; afterwards the pattern matches no name.

So a policy costs a bounded time, however many names there are.
"""
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


class NamePattern:
    """A compiled pattern; the empty one matches every name. The event loop owns it.

    Args:
        text: Regular expression; takes up to 20 ms to compile, so do it in a worker.

    Attributes:
        text: The expression as it was written.

    Raises:
        InvalidPatternError: The text is no pattern; its text is as RabbitMQ shows it.
    """

    __slots__ = ("_pattern", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            # Of a permission the empty pattern means the empty name.
            self._pattern = Pattern(text or ".*")
        except InvalidPatternError as error:
            raise InvalidPatternError(_as_pcre(error)) from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamePattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def matches(self, name: str) -> bool:
        """Return whether the pattern is found anywhere in a name."""
        return self._pattern.slow_count < SLOW_MAX and self._pattern.search(name)


def _as_pcre(error: InvalidPatternError) -> str:
    """Return a mistake as RabbitMQ shows the answer of Erlang's `re:compile`."""
    cause = error.__cause__
    if not isinstance(cause, regex.error):
        return str(error)
    # The type stubs of the library do not have these two.
    message, position = getattr(cause, "msg", str(cause)), getattr(cause, "pos", None) or 0
    reason = _TEXTS.get(message, message).replace("\\", "\\\\").replace('"', '\\"')
    return f'{{"{reason}",{position}}}'
