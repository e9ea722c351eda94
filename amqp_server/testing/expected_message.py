"""Compares published messages with the one that a test expects, and explains the difference."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from amqp_server.testing.message import Message

ANYTHING: Final = object()
"""Stands for any JSON; None is the JSON `null`."""
_NOT_JSON: Final = (ValueError, RecursionError)
"""Errors of `json.loads`: no JSON, or nested too deeply."""


@dataclass(frozen=True, slots=True)
class ExpectedMessage:
    """Expected properties of a message.

    Attributes:
        body: The whole body; None for any.
        json: What the body says in JSON; `ANYTHING` for any.
        headers: Headers that it has among others.
    """

    body: bytes | None
    json: Any
    headers: Mapping[str, Any]

    def matches(self, message: Message) -> bool:
        """Return whether a message is like this."""
        headers = message.headers
        if any(name not in headers or headers[name] != self.headers[name] for name in self.headers):
            return False
        if self.body is not None and message.body != self.body:
            return False
        if self.json is ANYTHING:
            return True
        try:
            return bool(message.json() == self.json)
        except _NOT_JSON:
            return False

    def difference(self, place: str, messages: Sequence[Message]) -> str:
        """Explain that none of some messages matches.

        Args:
            place: Where they should have been published to.
            messages: The messages that were published there.
        """
        if not messages:
            return f"no message was published to {place}"
        closest = max(messages, key=self._likeness)
        lines = difflib.unified_diff(
            self._wanted(), self._shown(closest), "expected", "published", lineterm="", n=99
        )
        what = "the message differs" if len(messages) == 1 else "the closest of them differs"
        return "\n".join(
            [f"{len(messages)} published to {place}, none as expected; {what}:", *lines]
        )

    def _likeness(self, message: Message) -> float:
        return difflib.SequenceMatcher(None, self._wanted(), self._shown(message)).ratio()

    def _wanted(self) -> list[str]:
        """Return the lines that describe a message that matches."""
        lines = [f"header {name}: {self.headers[name]!r}" for name in _sorted(self.headers)]
        if self.json is not ANYTHING:
            lines += _json_lines(self.json)
        if self.body is not None:
            lines += [repr(self.body)]
        return lines

    def _shown(self, message: Message) -> list[str]:
        """Return the same lines for what a message is."""
        lines = _header_lines(message, self.headers)
        if self.json is not ANYTHING:
            try:
                lines += _json_lines(message.json())
            except _NOT_JSON:
                lines += [f"no JSON: {message.body!r}"]
        if self.body is not None:
            lines += [repr(message.body)]
        return lines


def _header_lines(message: Message, names: Iterable[str]) -> list[str]:
    headers = message.headers
    return [
        f"header {name}: {headers[name]!r}" if name in headers else f"header {name} is missing"
        for name in _sorted(names)
    ]


def _sorted(names: Iterable[str]) -> list[str]:
    """Return names in an order; a test may ask for names that no message can have."""
    return sorted(names, key=str)


def _json_lines(value: object) -> list[str]:
    """Return the lines of a value; what is no JSON is shown as Python shows it."""
    try:
        return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).splitlines()
    except (TypeError, ValueError, RecursionError):
        return [repr(value)]
