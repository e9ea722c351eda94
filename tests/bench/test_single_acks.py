"""Acks of single deliveries, read by an independent codec."""

import pytest
from pamqp import commands, frame

from bench.single_acks import SingleAcks


@pytest.mark.parametrize("first", [1, 65_530, 3 * 65_536, (5 << 32) - 2])
def test_each_delivery_gets_an_ack_of_its_own(first: int) -> None:
    octets = SingleAcks(7).encode(first, first + 10)

    for tag in range(first, first + 10):
        consumed, channel, parsed = frame.unmarshal(octets)
        octets = octets[consumed:]
        assert isinstance(parsed, commands.Basic.Ack)
        assert (channel, parsed.delivery_tag, parsed.multiple) == (7, tag, False)
    assert not octets


def test_tags_may_be_acknowledged_in_any_pieces() -> None:
    acks = SingleAcks(7)

    pieces = b"".join(acks.encode(tag, tag + 7) for tag in range(65_501, 65_571, 7))

    assert pieces == SingleAcks(7).encode(65_501, 65_571)
