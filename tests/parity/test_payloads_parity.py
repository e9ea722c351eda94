"""Chunks made of payloads with one prefix: both builds make what `encode_chunk` makes."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog.layout import _encoding_c, _encoding_py
from appendlog.layout.message import encode_message

kernels = pytest.mark.parametrize(
    "kernel", [_encoding_c, _encoding_py], ids=["compiled", "interpreted"]
)
prefixes = st.builds(
    encode_message,
    st.sampled_from([1, 3]),
    st.binary(max_size=255),
    st.binary(max_size=255),
    st.binary(max_size=40),
    st.just(b""),
)


@kernels
@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=30),
    prefixes,
    st.integers(0, 1 << 61),
    st.integers(0, 1 << 61),
    st.integers(0, (1 << 32) - 1),
)
def test_it_is_the_chunk_of_the_messages(
    kernel: ModuleType,
    payloads: list[bytes],
    prefix: bytes,
    base_offset: int,
    timestamp_ns: int,
    salt: int,
) -> None:
    messages = [prefix + payload for payload in payloads]
    expected = _encoding_py.encode_chunk(messages, base_offset, None, timestamp_ns, None, salt)
    assert kernel.encode_payloads(payloads, prefix, base_offset, timestamp_ns, salt) == expected


PLAIN = encode_message(1, b"", b"key", b"\x10\x00\x02", b"")


@kernels
@pytest.mark.parametrize(
    ("payloads", "prefix", "error"),
    [
        ([], PLAIN, ValueError),
        ([b"x"], b"", ValueError),
        ([b"x"], PLAIN[:3], ValueError),
        ([b"x"], PLAIN[:-1], ValueError),
        ([b"x"], b"\x00" + PLAIN[1:], ValueError),
        ([b"x"], b"\x05" + PLAIN[1:], ValueError),
        ([b"x", "text"], PLAIN, TypeError),
        ([b"x", None], PLAIN, TypeError),
    ],
)
def test_what_is_no_chunk_of_plain_messages_is_refused(
    kernel: ModuleType, payloads: list[bytes], prefix: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error):
        kernel.encode_payloads(payloads, prefix, 0, 0, 0)
