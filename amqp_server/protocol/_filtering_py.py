"""The kernel that filters messages by one header, in their octets.

A consumer of a stream may want only some values of `x-stream-filter-value`; the broker then checks
each message of the log. Messages with equal octets before their bodies are checked once. The build
compiles it as `_filtering_c`; `framing.py` chooses.
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
    """Return the messages of a run that pass a consumer's filter.

    A message matches if its header `x-stream-filter-value` (a string, kind `S` or `x`) is one of
    `values`, octet for octet. If the header occurs more than once, the last one counts. A header of
    another kind counts as missing, and so does one behind an entry that cannot be decoded.

    Args:
        messages: Messages as stored in ring and log (docs/log-format.md).
        values: Values that match.
        match_unfiltered: Whether messages without the header match too.

    Returns:
        Half-open ranges of indexes into the run, in order; no two of them touch.

    Raises:
        ValueError: The lengths in a message are inconsistent.
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
    """Return what `matching_messages` returns, for messages in a buffer.

    Args:
        buffer: Buffer with the messages; only route and properties are read.
        positions: Position of each message in the buffer, an `array("I")`.
        lengths: Length of each message in octets, an `array("I")`.
        start: Index of the first message of the run; its index in the result is 0.
        stop: Index after the last message of the run.
        values: As for `matching_messages`.
        match_unfiltered: As for `matching_messages`.

    Raises:
        ValueError: A message is not inside the buffer, or its lengths are inconsistent.
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
    """Checks messages one after another; a message with the prefix of the last has its result.

    Args:
        values: Values that match.
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
        """Check the next message, `size` octets at `at`."""
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
        """Return the ranges of matching messages."""
        if self.first >= 0:
            self.ranges.append((self.first, self.place))
        return self.ranges

    def _is_alike(self, octets: bytes, at: int) -> bool:
        """Return whether a message has the same octets as the last one before its body."""
        if COMPILED:  # pragma: no cover - the interpreted build is the measured one
            return is_same(octets, at, self.model, self.prefix_bytes)  # type: ignore[name-defined, no-any-return]  # noqa: F821
        return octets.startswith(self.prefix, at)

    def _judge(self, octets: bytes, at: int, end: int) -> bool:
        """Return whether the message at `at`, whose properties end at `end`, matches."""
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
            if at >= 0 and has_key(octets, entry, stop, _FILTER_KEY):
                is_string = octets[behind_key] == 0x53 or octets[behind_key] == 0x78  # S, x
                value = behind_key + 1 if is_string else -1
        if value < 0:
            return self.match_unfiltered
        return octets[value + 4 : value + 4 + u32(octets, value)] in self.values
