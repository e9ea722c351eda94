"""Large deliveries have the octets of all others, and share one body."""

from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.framing import encode_deliveries
from amqp_server.protocol.large_delivery import encode_large_delivery
from amqp_server.protocol.properties import Properties
from appendlog.layout.message import encode_message

names = st.binary(max_size=255)


@given(
    body=st.integers(0, 20_000).map(bytes),
    exchange=names,
    key=names,
    consumer_tag=names,
    message_id=st.text("ab", max_size=20),
    channel=st.integers(1, 65_535),
    tag=st.integers(1, (1 << 64) - 1),
    redelivered=st.booleans(),
    frame_max=st.integers(4096, 9_000),
)
def test_the_octets_are_those_of_every_delivery(
    body: bytes,
    exchange: bytes,
    key: bytes,
    consumer_tag: bytes,
    message_id: str,
    channel: int,
    tag: int,
    *,
    redelivered: bool,
    frame_max: int,
) -> None:
    properties = Properties(message_id=message_id).encode()
    message = encode_message(0, exchange, key, properties, body)
    places = (channel, consumer_tag, tag, redelivered, frame_max)

    pieces = encode_large_delivery(message, *places)

    assert b"".join(pieces) == encode_deliveries([message], *places)
    views = [piece for piece in pieces if isinstance(piece, memoryview)]
    assert all(view.obj is message for view in views)
    assert sum(map(len, views)) == len(body)
