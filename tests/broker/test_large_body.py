"""A large message gets other properties in steps, each of which copies a bounded part of it."""

from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.routing.steps import result_of
from amqp_server.broker.transfers.large_body import (
    LARGE_BYTES,
    STEP_BYTES,
    with_body,
    without_large_body,
)
from appendlog.layout.message import decode_message, encode_message


def message(body: bytes, properties: bytes = b"\0\0") -> bytes:
    return encode_message(0, b"exchange", b"key", properties, body)


@given(
    body_bytes=st.sampled_from(
        (0, 1, LARGE_BYTES - 1, LARGE_BYTES, STEP_BYTES, 3 * STEP_BYTES + 7)
    ),
    properties=st.sampled_from((b"\0\0", b"\x10\0\x02")),
)
def test_the_body_is_behind_the_new_properties(body_bytes: int, properties: bytes) -> None:
    body = bytes(range(256)) * (body_bytes // 256) + bytes(body_bytes % 256)
    old = message(body)

    front, rest = without_large_body(old)

    if rest is None:
        assert front is old
        assert len(old) < LARGE_BYTES
        return
    assert rest.obj is old
    assert decode_message(front).body == b""
    assert result_of(with_body(message(b"", properties), rest)) == message(body, properties)


def test_a_step_copies_a_bounded_part() -> None:
    parts = 5
    body = bytes(parts * STEP_BYTES)

    steps = list(with_body(message(b""), memoryview(body)))

    assert len(steps) == parts
