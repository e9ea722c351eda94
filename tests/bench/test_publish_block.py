"""Pre-encoded publishes, read by an independent codec."""

import struct

import pytest
from pamqp import body, commands, frame, header

from bench.message_body import BODY_BYTES_MAX, BODY_BYTES_MIN, FIELDS, FIELDS_BYTES
from bench.publish_block import WRITE_BYTES, PublishBlock


def unmarshal_all(
    octets: bytes,
) -> list[tuple[int, frame.FrameTypes]]:
    """Read a stream of frames with pamqp: (channel, frame) of each."""
    frames = []
    while octets:
        consumed, channel, parsed = frame.unmarshal(octets)
        frames.append((channel, parsed))
        octets = octets[consumed:]
    return frames


@pytest.mark.parametrize("persistent", [False, True])
def test_a_block_is_whole_publishes_to_the_queue(persistent: bool) -> None:
    block = PublishBlock(1, "a queue", body_bytes=128, persistent=persistent, publisher=3)

    frames = unmarshal_all(block.encode(5, 1_000))

    assert len(frames) == 3 * block.block_messages
    assert {channel for channel, _ in frames} == {1}
    for index in range(block.block_messages):
        publish, content_header, content = (
            parsed for _, parsed in frames[3 * index : 3 * index + 3]
        )
        assert isinstance(publish, commands.Basic.Publish)
        assert (publish.exchange, publish.routing_key) == ("", "a queue")
        assert isinstance(content_header, header.ContentHeader)
        assert content_header.body_size == 128
        assert content_header.properties.delivery_mode == (2 if persistent else None)
        assert isinstance(content, body.ContentBody)
        assert content.value is not None
        assert len(content.value) == 128
        assert struct.unpack_from(FIELDS, content.value) == (3, index, 5, 1_000)
        assert content.value[FIELDS_BYTES:] == bytes(128 - FIELDS_BYTES)


def test_a_block_fills_one_write_and_is_no_larger() -> None:
    block = PublishBlock(1, "bench", body_bytes=128)

    size = len(block.encode(0, 0))

    assert size == block.block_messages * block.message_bytes
    assert WRITE_BYTES - block.message_bytes < size <= WRITE_BYTES


def test_all_blocks_have_the_same_size_and_differ_in_number_and_stamp_only() -> None:
    block = PublishBlock(1, "bench", body_bytes=BODY_BYTES_MIN, block_messages=4)

    first, last = block.encode(0, 0), block.encode(2**32 - 1, 2**63 - 1)

    assert len(first) == len(last)
    differing = [place for place, octet in enumerate(first) if octet != last[place]]
    assert len(differing) == 4 * 12


def test_a_message_larger_than_a_write_is_a_block_of_its_own() -> None:
    assert PublishBlock(1, "bench", body_bytes=BODY_BYTES_MAX).block_messages == 1


@pytest.mark.parametrize("body_bytes", [0, BODY_BYTES_MIN - 1, BODY_BYTES_MAX + 1])
def test_a_body_that_cannot_be_numbered_or_needs_two_frames_is_refused(body_bytes: int) -> None:
    with pytest.raises(ValueError, match=f"a body of {body_bytes} bytes"):
        PublishBlock(1, "bench", body_bytes=body_bytes)


@pytest.mark.parametrize("block_messages", [0, 2**16 + 1])
def test_a_block_whose_messages_cannot_be_told_apart_is_refused(block_messages: int) -> None:
    with pytest.raises(ValueError, match=f"{block_messages} messages in a block"):
        PublishBlock(1, "bench", body_bytes=128, block_messages=block_messages)


def test_a_body_may_have_sixteen_bytes() -> None:
    assert BODY_BYTES_MIN == 16


def test_a_block_may_have_a_routing_key_for_each_publish() -> None:
    block = PublishBlock(1, "", body_bytes=16, exchange="x", routing_keys=("a.1", "b.2"))

    publishes = [
        parsed
        for _, parsed in unmarshal_all(block.encode(0, 0))
        if isinstance(parsed, commands.Basic.Publish)
    ]

    assert [(each.exchange, each.routing_key) for each in publishes] == [("x", "a.1"), ("x", "b.2")]


def test_routing_keys_of_one_block_that_differ_in_length_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        PublishBlock(1, "", body_bytes=16, routing_keys=("a", "bb"))
