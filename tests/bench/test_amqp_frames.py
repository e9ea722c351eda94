"""The frames of the generator, read by an independent codec."""

import pytest
from pamqp import commands
from pamqp import frame as pamqp_frame

from bench.amqp_frames import (
    CHANNEL_CLOSE,
    acknowledge,
    method_frame,
    parse_frames,
    short_string,
    try_parse_frame,
)
from bench.errors import UnexpectedFrameError


def test_an_ack_acknowledges_all_up_to_its_tag() -> None:
    consumed, channel, ack = pamqp_frame.unmarshal(acknowledge(7, 2**40))

    assert consumed == len(acknowledge(7, 2**40))
    assert channel == 7
    assert isinstance(ack, commands.Basic.Ack)
    assert (ack.delivery_tag, ack.multiple) == (2**40, True)


def test_frames_are_read_up_to_the_first_that_is_not_whole() -> None:
    stream = acknowledge(1, 1) + acknowledge(2, 2) + acknowledge(3, 3)[:-1]

    assert [each.channel for each in parse_frames(stream)] == [1, 2]


def test_a_frame_is_whole_only_with_its_end_octet() -> None:
    octets = acknowledge(1, 1)

    assert all(try_parse_frame(octets[:size], 0) is None for size in range(len(octets)))
    assert try_parse_frame(octets, 0) is not None


def test_a_frame_without_its_end_octet_is_refused() -> None:
    with pytest.raises(UnexpectedFrameError, match="0x0"):
        try_parse_frame(acknowledge(1, 1)[:-1] + b"\0", 0)


def test_a_close_is_described_by_its_reply_text() -> None:
    arguments = b"\x01\x94" + short_string("NOT_FOUND - no queue") + bytes(4)
    close = try_parse_frame(method_frame(1, *CHANNEL_CLOSE, arguments), 0)

    assert close is not None
    assert "NOT_FOUND - no queue" in close.describe()
