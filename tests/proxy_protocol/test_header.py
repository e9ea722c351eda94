"""The octets of PROXY headers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.connections.proxy_protocol.header import (
    HEADER_BYTES_MAX,
    LENGTH_MAX,
    LINE_BYTES_MAX,
    SIGNATURE_V2,
    ProxiedAddresses,
    ProxyHeaderError,
    may_be_header,
    parse_header,
)

V4 = ProxiedAddresses(("192.0.2.7", 56324), ("198.51.100.1", 5672))
V6 = ProxiedAddresses(("2001:db8::7", 56324), ("2001:db8::1", 5672))
LINE_V4 = b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 5672\r\n"
LINE_V6 = b"PROXY TCP6 2001:db8::7 2001:db8::1 56324 5672\r\n"
PORTS = struct.pack(">HH", 56324, 5672)
ADDRESSES_V4 = bytes([192, 0, 2, 7, 198, 51, 100, 1]) + PORTS
ADDRESSES_V6 = (
    bytes.fromhex("20010db8000000000000000000000007 20010db8000000000000000000000001") + PORTS
)


def version_2(command: int, family: int, body: bytes, length: int | None = None) -> bytes:
    """Return a header of version 2."""
    size = len(body) if length is None else length
    return SIGNATURE_V2 + struct.pack(">BBH", command, family, size) + body


V2_V4 = version_2(0x21, 0x11, ADDRESSES_V4)
V2_V6 = version_2(0x21, 0x21, ADDRESSES_V6)
TLV = b"\x04\x00\x03abc"
VALID = [
    (LINE_V4, V4),
    (LINE_V6, V6),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    (V2_V4, V4),
    (V2_V6, V6),
    (version_2(0x21, 0x11, ADDRESSES_V4 + TLV), V4),
    (version_2(0x21, 0x21, ADDRESSES_V6 + TLV * 20), V6),
    (version_2(0x21, 0x11, ADDRESSES_V4.ljust(LENGTH_MAX, b"\0")), V4),
    (version_2(0x20, 0x00, b""), None),
    (version_2(0x20, 0x11, ADDRESSES_V4), None),
    (version_2(0x21, 0x00, b""), None),
    (version_2(0x21, 0x31, bytes(216)), None),
]


@pytest.mark.parametrize(("octets", "addresses"), VALID)
def test_a_valid_header_at_every_length(octets: bytes, addresses: ProxiedAddresses | None) -> None:
    assert may_be_header(octets)
    for end in range(1, len(octets)):
        assert parse_header(octets[:end]) is None, end
    for rest in (b"", b"AMQP\x00\x00\x09\x01", b"\r\n"):
        header = parse_header(octets + rest)
        assert header is not None
        assert header.addresses == addresses
        assert header.size == len(octets)


def test_the_longest_line_of_the_specification() -> None:
    address = b"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
    line = b"PROXY UNKNOWN " + b" ".join([address, address, b"65535", b"65535"]) + b"\r\n"
    assert len(line) == LINE_BYTES_MAX
    header = parse_header(line)
    assert header is not None
    assert header.size == LINE_BYTES_MAX


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"POST / HTTP/1.1\r\n", "begins like none"),
        (b"PROXY\r\n", "begins like none"),
        (b"PROXY  192.0.2.7\r\n", "not TCP4 or TCP6"),
        (b"PROXY UDP4 192.0.2.7 198.51.100.1 1 2\r\n", "not TCP4 or TCP6"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 1\r\n", "not TCP4 or TCP6"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 1 2 3\r\n", "not TCP4 or TCP6"),
        (b"PROXY TCP4 192.0.2.700 198.51.100.1 1 2\r\n", "an address is none"),
        (b"PROXY TCP4 \xff 198.51.100.1 1 2\r\n", "an address is none"),
        (b"PROXY TCP4 ::1 ::2 1 2\r\n", "an address is of another family"),
        (b"PROXY TCP6 fe80::1%lo ::2 1 2\r\n", "an address is of another family"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 2\r\n", "a port is none"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 -1 2\r\n", "a port is none"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 000001 2\r\n", "a port is none"),
        (b"PROXY TCP4 " + b"1" * 200, "no end of the line in 107"),
        (b"\r\n\r\n\x00\r\nQUIX", "begins like none"),
        (version_2(0x11, 0x11, ADDRESSES_V4), "unknown version or command 0x11"),
        (version_2(0x22, 0x11, ADDRESSES_V4), "unknown version or command 0x22"),
        (version_2(0x21, 0x11, ADDRESSES_V4[:-1]), "too short for two addresses"),
        (version_2(0x21, 0x21, ADDRESSES_V4), "too short for two addresses"),
        (version_2(0x21, 0x11, b"", LENGTH_MAX + 1), "length 537 is above 536"),
        (version_2(0x20, 0x00, b"", 65_535), "length 65535 is above 536"),
    ],
)
def test_a_malformed_header(octets: bytes, reason: str) -> None:
    with pytest.raises(ProxyHeaderError, match=reason):
        parse_header(octets)


@pytest.mark.parametrize("octets", [b"AMQP\x00\x00\x09\x01", b"\x16\x03\x01", b"GET /"])
def test_what_other_clients_send_is_no_header(octets: bytes) -> None:
    assert not may_be_header(octets)


@given(
    st.sampled_from([b"PROXY ", b"PROXY TCP4 ", SIGNATURE_V2, V2_V4[:16], b"P", b"\r"]), st.data()
)
def test_any_octets_are_a_header_an_error_or_not_complete(
    begin: bytes, data: st.DataObject
) -> None:
    octets = begin + data.draw(st.binary(max_size=600))
    try:
        header = parse_header(octets)
    except ProxyHeaderError:
        return
    if header is None:
        assert len(octets) < HEADER_BYTES_MAX
    else:
        assert header.size <= len(octets)
