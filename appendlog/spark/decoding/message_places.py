"""Where the parts of many messages lie: one vector for each boundary, a row for each message.

Source: docs/log-format.md, section 5; AMQP 0-9-1 specification, section 4.2.6.1, for properties.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from appendlog.segments.read_result import Records
from appendlog.spark.decoding.malformed import MalformedMessageError
from appendlog.spark.decoding.octets import (
    Integers,
    Mask,
    Octets,
    inside,
    network_u16_at,
    network_u32_at,
    u8_at,
    u32_at,
)
from appendlog.spark.decoding.properties import PROPERTY_COLUMNS, present_properties

_PADDING: Final = np.zeros(8, np.uint8)
"""So that there is a place for the longest number, however short the messages are."""
_RARE: Final = 3
"""Flag bits of property lists that are read one by one."""
_FIXED_BYTES: Final = {"delivery_mode": 1, "priority": 1, "message_timestamp": 8}


class Messages(NamedTuple):
    """Messages in one buffer, in order.

    Attributes:
        octets: All of their bytes; 8 at least.
        starts: Of the messages.
        stops: Behind them.
    """

    octets: Octets
    starts: Integers
    stops: Integers


class Envelopes(NamedTuple):
    """What stands in front of the bodies.

    Attributes:
        exchange_stops: Where the names of exchanges end; they start at 2.
        key_starts: Of the routing keys.
        key_stops: Behind them.
        properties: Where the property lists start.
        bodies: Where the bodies start.
    """

    exchange_stops: Integers
    key_starts: Integers
    key_stops: Integers
    properties: Integers
    bodies: Integers


class Fields(NamedTuple):
    """Where one property lies, in the rows that have it.

    Attributes:
        is_present: Of all rows.
        starts: Of all rows; where it is absent, the start of the message.
        stops: The same.
    """

    is_present: Mask
    starts: Integers
    stops: Integers


def messages_of(parts: Sequence[Records]) -> Messages:
    """Return the messages of all parts in one buffer: a view of it, if there is one part."""
    pieces: list[Octets] = []
    starts: list[Integers] = []
    stops: list[Integers] = []
    at = 0
    for part in parts:
        positions = np.frombuffer(part.positions, np.uint32).astype(np.int64)
        ends = positions + np.frombuffer(part.lengths, np.uint32)
        low, high = int(positions[0]), int(ends[-1])
        # The buffer may be a mapping, and more than Arrow can have positions in.
        pieces.append(np.frombuffer(part.buffer, np.uint8)[low:high])
        starts.append(positions + (at - low))
        stops.append(ends + (at - low))
        at += high - low
    if at < len(_PADDING):
        pieces.append(_PADDING)
    octets = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    return Messages(octets, np.concatenate(starts), np.concatenate(stops))


def envelopes_of(messages: Messages, parts: Sequence[Records]) -> Envelopes:
    """Return where the parts of each message lie.

    Raises:
        MalformedMessageError: Bytes of a message end inside its route or properties.
    """
    octets, starts, stops = messages
    key_lengths_at = starts + 2 + u8_at(octets, inside(octets, starts + 1, 1))
    key_starts = key_lengths_at + 1
    key_stops = key_starts + u8_at(octets, inside(octets, key_lengths_at, 1))
    properties = key_stops + 4
    bodies = properties + u32_at(octets, inside(octets, key_stops, 4))
    is_malformed = (starts + 1 >= stops) | (key_lengths_at >= stops) | (bodies > stops)
    if is_malformed.any():
        row = int(is_malformed.argmax())
        raise MalformedMessageError([offset for part in parts for offset in part.offsets][row])
    return Envelopes(key_lengths_at, key_starts, key_stops, properties, bodies)


def property_fields(messages: Messages, envelopes: Envelopes) -> tuple[Mapping[str, Fields], Mask]:
    """Return where properties lie, those that occur, and which rows have lists that add up.

    A list that does not add up has no property.
    """
    octets = messages.octets
    at, ends = envelopes.properties.copy(), envelopes.bodies
    is_empty = at == ends
    words = network_u16_at(octets, inside(octets, at, 2))
    words[is_empty] = 0
    at += np.where(is_empty, 0, 2)
    for row in np.flatnonzero(words & _RARE).tolist():
        data = octets[envelopes.properties[row] : ends[row]].tobytes()
        at[row], words[row] = _after_flags(data, int(envelopes.properties[row]), int(words[row]))
    found: dict[str, tuple[Mask, Integers, Integers]] = {}
    for bit, name in enumerate(PROPERTY_COLUMNS):
        has = (words & (1 << 15 - bit)) != 0
        if has.any():
            starts, stops = _bounds(octets, name, at)
            found[name] = (has, starts, stops)
            at = np.where(has, stops, at)
    is_readable = at == ends
    if not is_readable.all():
        found = {name: (has & is_readable, *bounds) for name, (has, *bounds) in found.items()}
    fields = {
        name: Fields(has, *(np.where(has, bound, messages.starts) for bound in bounds))
        for name, (has, *bounds) in found.items()
    }
    return fields, is_readable


def _bounds(octets: Octets, name: str, at: Integers) -> tuple[Integers, Integers]:
    """Return where a property that begins at some places has its value, in each row."""
    if name in _FIXED_BYTES:
        return at, at + _FIXED_BYTES[name]
    if name == "headers":
        starts = at + 4
        return starts, starts + network_u32_at(octets, inside(octets, at, 4))
    starts = at + 1
    return starts, starts + u8_at(octets, inside(octets, at, 1))


def _after_flags(data: bytes, start: int, word: int) -> tuple[int, int]:
    """Return where the properties begin behind more than one word of flags, and the first word.

    Behind the end where nobody can tell.
    """
    try:
        _, position = present_properties(data)
    except (IndexError, ValueError):
        return start + len(data) + 1, 0
    return start + position, word
