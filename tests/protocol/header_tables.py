"""Octets of headers and of messages that have them: whole, damaged, and nested."""

from __future__ import annotations

from struct import pack

from hypothesis import strategies as st

from amqp_server.protocol.property_octets import HEADERS, find_property
from appendlog.layout.message import HAS_HEADERS, encode_message
from tests.protocol import wire

KINDS = b"SxFAbBtsuIifDlLTdV"


def longstr(octets: bytes) -> bytes:
    return pack(">I", len(octets)) + octets


def entry(name: bytes, value: bytes) -> bytes:
    return wire.short_string(name) + value


_fixed_values = st.sampled_from(
    [b"V", b"t\x07", b"b\x01", b"B\x02", b"s12", b"u12", b"I1234", b"i1234", b"f1234", b"D12345"]
    + [kind + b"12345678" for kind in (b"l", b"L", b"T", b"d")]
)
_strings = st.builds(
    lambda kind, value: kind + longstr(value),
    st.sampled_from([b"S", b"x"]),
    st.sampled_from([b"", b"a", b"b", b"abcd"]),
)
_keys = st.binary(max_size=3) | st.sampled_from(
    [b"x-stream-offset", b"x-stream-offseT", b"x-stream-filter-value", b"x-stream-filter-valuE"]
)


def _entries_of(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(st.builds(entry, _keys, values), max_size=4).map(b"".join)


_values = st.recursive(
    _fixed_values | _strings,
    lambda inner: (
        _entries_of(inner).map(lambda entries: b"F" + longstr(entries))
        | st.lists(inner, max_size=3).map(lambda items: b"A" + longstr(b"".join(items)))
    ),
    max_leaves=6,
)
whole_entries = _entries_of(_values)


@st.composite
def damaged_entries(draw: st.DrawFn) -> bytes:
    entries = bytearray(draw(whole_entries))
    flips = st.tuples(st.integers(0, 200), st.sampled_from([0, 1, 2, 255, *KINDS]))
    for place, octet in draw(st.lists(flips, min_size=1, max_size=3)):
        if entries:
            entries[place % len(entries)] = octet
    cut = draw(st.integers(0, 60))
    return bytes(entries[: len(entries) - cut] if cut < 20 else entries)


def nested(depth: int) -> bytes:
    entries = b""
    for _ in range(depth):
        entries = entry(b"a", b"F" + longstr(entries))
    return entries


any_entries = (
    whole_entries
    | damaged_entries()
    | st.binary(max_size=30)
    | st.sampled_from([nested(depth) for depth in (62, 63, 64, 65, 70)])
)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Any of the 14 properties, any headers, whole or not."""
    listed = draw(wire.property_lists())
    properties = listed.octets
    if listed.message_flags & HAS_HEADERS:
        start, end = find_property(properties, HEADERS)
        properties = properties[:start] + longstr(draw(any_entries)) + properties[end:]
    route = draw(st.sampled_from([(b"", b"q"), (b"e" * 255, b""), (b"", b"k" * 255)]))
    return encode_message(listed.message_flags, *route, properties, draw(wire.bodies))


def message_with(entries: bytes) -> bytes:
    """Return a message that has these headers and no other property."""
    return encode_message(HAS_HEADERS, b"", b"q", b"\x20\x00" + longstr(entries), b"body")
