"""Which messages a filter lets through: a kernel that looks for one header in their octets.

A stream's consumer may ask for some values of `x-stream-filter-value` only; then each message of
its log is asked for it. Messages that begin alike up to their bodies are judged once. Compiled as
`_filtering_c`; `framing.py` chooses.
"""

from __future__ import annotations

from array import array
from mmap import mmap

COMPILED = __name__.endswith("_c")
if not COMPILED:  # the compiled build has them from the .pxd
    from amqp_server.protocol._headers_py import (
        body_position,
        has_key,
        headers_position,
        short_string_end,
        u32,
        value_end,
    )

ReadableBuffer = bytes | memoryview | mmap

_HEADERS = 1 << 13
_FILTER_KEY = b"\x15x-stream-filter-value"


def matching_messages(
    messages: list[bytes], values: frozenset[bytes], match_unfiltered: bool
) -> list[tuple[int, int]]:
    """Return which of a run of messages a consumer with a filter gets.

    A message matches if its header `x-stream-filter-value` (a string, kind `S` or `x`) is one of
    `values`, octet for octet. If it is there more than once, the last one counts. A header of
    another kind, and a table that does not hold together, are as none.

    Args:
        messages: Messages as they stand in ring and log (docs/log-format.md).
        values: What is looked for.
        match_unfiltered: Whether messages without the header match too.

    Returns:
        Half-open ranges of places in the run, from 0 on, in order; no two of them touch.

    Raises:
        ValueError: The lengths in a message do not add up.
    """
    matcher = _Matcher(values, match_unfiltered)
    for message in messages:
        matcher.look_at(message, 0, len(message))
    return matcher.end()


def matching_run(
    buffer: ReadableBuffer,
    positions: array[int],
    lengths: array[int],
    start: int,
    stop: int,
    values: frozenset[bytes],
    match_unfiltered: bool,
) -> list[tuple[int, int]]:
    """Return what `matching_messages` does, for messages that lie in a buffer.

    Args:
        buffer: Where the messages lie; only route and properties are looked at.
        positions: Where each begins, an `array("I")`.
        lengths: How long each is, an `array("I")`.
        start: The first of the run; its place in what is returned is 0.
        stop: The end of the run, exclusive.
        values: As for `matching_messages`.
        match_unfiltered: As for `matching_messages`.

    Raises:
        ValueError: A message is not inside the buffer, or its lengths do not add up.
    """
    view = memoryview(buffer)
    at_places, size_places = positions, lengths
    if start < 0 or stop > len(positions) or stop > len(lengths):
        raise ValueError(f"[{start}, {stop}) is not inside {len(positions)} messages")
    if COMPILED:  # pragma: no cover - the interpreted build is the measured one
        octets = octets_of(buffer)  # type: ignore[name-defined]  # noqa: F821 - in the .pxd
    else:
        octets = view
    view_bytes = len(view)
    matcher = _Matcher(values, match_unfiltered)
    for index in range(start, stop):
        at = at_places[index]
        size = size_places[index]
        if at + size > view_bytes:
            raise ValueError(f"message {index} is not inside {view_bytes} bytes")
        if COMPILED:  # pragma: no cover - the interpreted build is the measured one
            matcher.look_at(octets, at, size)
        else:
            matcher.look_at(bytes(octets[at : at + size]), 0, size)
    return matcher.end()


class _Matcher:
    """Looks at one message behind the other; one that begins as the last did is as the last.

    Args:
        values: What is looked for.
        match_unfiltered: Whether messages without the header match too.
    """

    def __init__(self, values: frozenset[bytes], match_unfiltered: bool) -> None:
        self.values = values
        self.match_unfiltered = match_unfiltered
        self.ranges: list[tuple[int, int]] = []
        self.place = 0
        self.first = -1
        self.prefix = b""
        self.prefix_bytes = 0
        self.is_match = False

    def look_at(self, octets: bytes, at: int, size: int) -> None:
        """Take the next message, `size` octets at `at`."""
        if self.prefix_bytes == 0 or size < self.prefix_bytes or not self._is_alike(octets, at):
            self.prefix_bytes = 0
            prefix_bytes = body_position(octets, at, size)
            self.is_match = self._judge(octets, at, at + prefix_bytes)
            if COMPILED:  # pragma: no cover - the interpreted build is the measured one
                self.model = place_in(octets, at)  # type: ignore[name-defined]  # noqa: F821
            else:
                self.prefix = octets[at : at + prefix_bytes]
            self.prefix_bytes = prefix_bytes
        if self.is_match:
            if self.first < 0:
                self.first = self.place
        elif self.first >= 0:
            self.ranges.append((self.first, self.place))
            self.first = -1
        self.place += 1

    def end(self) -> list[tuple[int, int]]:
        """Return the ranges of what matched."""
        if self.first >= 0:
            self.ranges.append((self.first, self.place))
        return self.ranges

    def _is_alike(self, octets: bytes, at: int) -> bool:
        """Tell whether a message begins as the last one did, up to the body."""
        if COMPILED:  # pragma: no cover - the interpreted build is the measured one
            return is_same(octets, at, self.model, self.prefix_bytes)  # type: ignore[name-defined, no-any-return]  # noqa: F821
        return octets.startswith(self.prefix, at)

    def _judge(self, octets: bytes, at: int, end: int) -> bool:
        """Tell whether the message at `at` matches, whose properties end at `end`."""
        start = at + 2 + octets[at + 1]
        start += 5 + octets[start]
        at = headers_position(octets, start, end)
        flags = octets[start] << 8 | octets[start + 1]
        if not flags & _HEADERS:
            return self.match_unfiltered
        stop = at + 4 + u32(octets, at)
        at += 4
        value = -1
        while 0 <= at < stop:
            entry = at
            behind_key = short_string_end(octets, at, stop)
            at = value_end(octets, behind_key, stop, 1)
            if at >= 0 and has_key(octets, entry, _FILTER_KEY):
                is_string = octets[behind_key] == 0x53 or octets[behind_key] == 0x78  # S, x
                value = behind_key + 1 if is_string else -1
        if at < 0 or value < 0:
            return self.match_unfiltered
        return octets[value + 4 : value + 4 + u32(octets, value)] in self.values
