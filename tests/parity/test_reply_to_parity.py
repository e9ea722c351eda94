"""The reply-to of a message is replaced as the codec would, by both builds.

Needs the compiled kernel: `python setup.py build_ext --inplace`.
"""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.field_values import FieldValue
from amqp_server.protocol.properties import Properties
from amqp_server.protocol.strings import encode_shortstr
from appendlog.layout.message import encode_message

KERNELS = [
    importlib.import_module(f"amqp_server.protocol._headers_{build}") for build in ("py", "c")
]
ASKED = "amq.rabbitmq.reply-to"

texts = st.none() | st.sampled_from(["", "a", "t" * 255, ASKED, "\x15" + ASKED])
all_properties = st.builds(
    Properties,
    content_type=texts,
    content_encoding=texts,
    headers=st.none() | st.sampled_from([{}, {"a": FieldValue(b"S", ASKED.encode())}]),
    delivery_mode=st.none() | st.sampled_from([1, 2, 21]),
    priority=st.none() | st.sampled_from([0, 21]),
    correlation_id=texts,
    reply_to=texts,
    expiration=texts,
    message_id=texts,
    timestamp=st.none() | st.just(7),
    user_id=texts,
)


@given(
    properties=all_properties,
    names=st.tuples(st.binary(max_size=4), st.binary(max_size=4)),
    body=st.binary(max_size=20),
    after=st.sampled_from(["", "k", "k" * 255]),
)
def test_a_reply_to_is_replaced_as_by_the_codec(
    properties: Properties, names: tuple[bytes, bytes], body: bytes, after: str
) -> None:
    message = encode_message(1, *names, properties.encode(), body)

    replaced = [
        kernel.with_reply_to(message, encode_shortstr(ASKED), encode_shortstr(after))
        for kernel in KERNELS
    ]

    expected = None
    if properties.reply_to == ASKED:
        expected = encode_message(1, *names, replace(properties, reply_to=after).encode(), body)
    assert replaced == [expected, expected]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("cut", [0, 1, 6, 8])
def test_a_message_that_is_no_message_is_refused(kernel: object, cut: int) -> None:
    message = encode_message(1, b"", b"q", Properties(reply_to=ASKED).encode(), b"")[:cut]

    with pytest.raises(ValueError, match="ends inside"):
        kernel.with_reply_to(message, b"", b"")  # type: ignore[attr-defined]
