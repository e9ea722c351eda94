"""A header is written into a message, and nothing else of the message changes."""

import pytest

from amqp_server.broker.transfers.message_headers import with_header, with_headers
from amqp_server.protocol.field_values import FieldValue
from amqp_server.protocol.readable_headers import readable_properties
from appendlog.layout.message import HAS_HEADERS, PERSISTENT, decode_message, encode_message

COUNT = FieldValue(b"l", 3)
ENTRY = b"\x05countl" + (3).to_bytes(8, "big")
CONTENT_TYPE, HEADERS, DELIVERY_MODE = 1 << 15, 1 << 13, 1 << 12
BROKEN = b"\x01aZ\x01\x05countV\xff"
REPEATED = b"\x01aI\x00\x00\x00\x01\x01aI\x00\x00\x00\x02\x01tt\x07"


def properties(flags: int, *octets: bytes) -> bytes:
    return flags.to_bytes(2, "big") + b"".join(octets)


def table(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (properties(0), properties(HEADERS, table(ENTRY))),
        (
            properties(CONTENT_TYPE | DELIVERY_MODE, b"\x01x", b"\x02"),
            properties(CONTENT_TYPE | HEADERS | DELIVERY_MODE, b"\x01x", table(ENTRY), b"\x02"),
        ),
        (
            properties(HEADERS | DELIVERY_MODE, table(REPEATED), b"\x02"),
            properties(HEADERS | DELIVERY_MODE, table(REPEATED + ENTRY), b"\x02"),
        ),
        (
            properties(HEADERS, table(b"\x05countt\x01" + REPEATED)),
            properties(HEADERS, table(REPEATED + ENTRY)),
        ),
        (properties(HEADERS, table(b"\x01a?")), properties(HEADERS, table(ENTRY + b"\x01a?"))),
        (
            properties(HEADERS | DELIVERY_MODE, table(b"\x05countV\x01tt\x07" + BROKEN), b"\x02"),
            properties(HEADERS | DELIVERY_MODE, table(b"\x01tt\x07" + ENTRY + BROKEN), b"\x02"),
        ),
    ],
    ids=[
        "no properties",
        "no headers",
        "other headers",
        "an older value",
        "broken",
        "partly broken",
    ],
)
def test_a_header_is_put_in_and_all_other_octets_stay(before: bytes, after: bytes) -> None:
    has_headers = HAS_HEADERS if before[0] << 8 & HEADERS else 0
    message = encode_message(PERSISTENT | has_headers, b"exchange", b"key", before, b"body")

    changed = decode_message(with_header(message, "count", COUNT))

    assert changed.flags == PERSISTENT | HAS_HEADERS
    assert (changed.exchange, changed.routing_key, changed.body) == (b"exchange", b"key", b"body")
    assert changed.properties == after
    assert (readable_properties(changed.properties).headers or {})["count"] == COUNT


def test_several_headers_take_the_places_of_older_ones_at_once() -> None:
    first = {"a": FieldValue(b"I", 1), "count": FieldValue(b"I", 2), "b": FieldValue(b"I", 3)}
    message = with_headers(encode_message(0, b"", b"key", properties(0), b"body"), first)
    changed = with_headers(message, {"count": COUNT, "a": COUNT, "c": COUNT})
    headers = readable_properties(decode_message(changed).properties).headers
    assert headers == {"b": first["b"], "count": COUNT, "a": COUNT, "c": COUNT}
