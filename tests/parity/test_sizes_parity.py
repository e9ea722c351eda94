"""The sums of sizes, compiled and interpreted, against each other and the plain words."""

from importlib import import_module
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ring import _sizes_py

_sizes_c = import_module("ring._sizes_c")
BUILDS = pytest.mark.parametrize("kernel", [_sizes_c, _sizes_py], ids=["compiled", "interpreted"])
MESSAGES = st.lists(st.binary(max_size=40), max_size=40)


def test_the_compiled_kernel_is_compiled() -> None:
    assert type(_sizes_c.bytes_of) is not type(_sizes_py.bytes_of)


@BUILDS
@given(messages=MESSAGES)
def test_bytes_are_those_of_all_messages(kernel: ModuleType, messages: list[bytes]) -> None:
    assert kernel.bytes_of(messages) == len(b"".join(messages))


@BUILDS
@given(messages=MESSAGES, bytes_max=st.integers(-1, 1_000))
def test_the_count_is_that_of_the_longest_head_that_fits(
    kernel: ModuleType, messages: list[bytes], bytes_max: int
) -> None:
    heads = [len(b"".join(messages[:count])) for count in range(1, len(messages) + 1)]
    assert kernel.count_within(messages, bytes_max) == sum(head <= bytes_max for head in heads)


@pytest.mark.parametrize("messages", [[b"ok", bytearray(2)], [b"ok", 3], (b"ok",)])
def test_the_compiled_kernel_takes_only_lists_of_bytes(messages: object) -> None:
    """It reads the sizes of objects without asking them."""
    with pytest.raises(TypeError):
        _sizes_c.bytes_of(messages)
    with pytest.raises(TypeError):
        _sizes_c.count_within(messages, 10)
