"""Large messages have the octets of all others, and share one body."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol import large_delivery
from amqp_server.protocol.framing import encode_content, encode_deliveries
from amqp_server.protocol.large_delivery import (
    LargeFrames,
    Octets,
    apart,
    content_of,
    deliveries_of,
)
from amqp_server.protocol.properties import Properties
from appendlog.layout.message import encode_message, message_borders

names = st.binary(max_size=255)
messages = st.builds(
    lambda exchange, key, message_id, body_bytes: encode_message(
        0, exchange, key, Properties(message_id=message_id).encode(), bytes(body_bytes)
    ),
    names,
    names,
    st.text("ab", max_size=20),
    st.integers(0, 20_000),
)
channels = st.integers(1, 65_535)
FRAME_MAX = 9_000
frame_sizes = st.integers(4096, FRAME_MAX)
parts = st.sampled_from((1, 4096, 10_000, 1 << 20))


@pytest.fixture(autouse=True, scope="module")
def _every_message_is_large() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_delivery, "LARGE_MESSAGE_BYTES", 0)
        yield


def check_shared(
    octets: Octets, message: bytes, expected: bytes | bytearray, part_bytes: int
) -> None:
    """Check what is sent in parts, and that it contains the body as views of the message."""
    assert isinstance(octets, LargeFrames)
    assert len(octets) == len(expected)
    pieces: list[bytes | memoryview] = []
    while len(octets):
        some = octets.take(part_bytes)
        assert sum(map(len, some)) <= part_bytes + 2 * FRAME_MAX
        pieces += some
        assert len(octets) == len(expected) - sum(map(len, pieces))
    assert b"".join(pieces) == expected
    views = [piece for piece in pieces if isinstance(piece, memoryview)]
    assert all(view.obj is message for view in views)
    assert sum(map(len, views)) == len(message) - message_borders(message)[2]


@given(
    message=messages,
    channel=channels,
    consumer_tag=names,
    tag=st.integers(1, (1 << 64) - 1),
    redelivered=st.booleans(),
    frame_max=frame_sizes,
    offset=st.sampled_from((-1, 0, 1 << 40)),
    part_bytes=parts,
)
def test_the_octets_are_those_of_every_delivery(
    message: bytes,
    channel: int,
    consumer_tag: bytes,
    tag: int,
    *,
    redelivered: bool,
    frame_max: int,
    offset: int,
    part_bytes: int,
) -> None:
    places = (channel, consumer_tag, tag, redelivered, frame_max, offset)

    octets = deliveries_of([message], *places)
    check_shared(octets, message, encode_deliveries([message], *places), part_bytes)


@given(
    message=messages,
    channel=channels,
    before_route=st.binary(min_size=4, max_size=300),
    after_route=st.binary(max_size=4),
    frame_max=frame_sizes,
    part_bytes=parts,
)
def test_the_octets_are_those_of_every_other_method_with_content(
    message: bytes,
    channel: int,
    before_route: bytes,
    after_route: bytes,
    frame_max: int,
    part_bytes: int,
) -> None:
    places = (channel, before_route, after_route, frame_max)

    octets = content_of(message, *places)
    check_shared(octets, message, encode_content(message, *places), part_bytes)


def test_several_messages_are_encoded_in_one_piece() -> None:
    several = [encode_message(0, b"", b"q", b"\0\0", bytes(count)) for count in (200_000, 1)]

    octets = deliveries_of(several, 1, b"tag", 1, False, 4096)

    assert octets == encode_deliveries(several, 1, b"tag", 1, False, 4096)


@given(sizes=st.lists(st.sampled_from((1, 2, 200_000)), min_size=1))
def test_large_messages_are_taken_apart_in_their_order(sizes: list[int]) -> None:
    several = [bytes(size) for size in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_delivery, "LARGE_MESSAGE_BYTES", 200_000)
        runs = apart(several)

    assert [message for run in runs for message in run] == several
    assert all(len(run) == 1 or max(map(len, run)) < 200_000 for run in runs)
    assert len(runs) <= 2 * sizes.count(200_000) + 1
