"""Arrow expands what the package zstandard packed, refuses what it refuses, and back."""

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from appendlog.layout import zstd_arrow, zstd_package

CONTENT = b"".join(b"message %d of many\n" % number for number in range(2000))
FRAME = zstd_package.FramePacker(1).pack(memoryview(CONTENT))


@pytest.mark.parametrize("size", [0, 1, 200, 255, 256, 300, 65_535, 65_536, 70_000, 1 << 20])
@pytest.mark.parametrize(
    ("packer", "expand"),
    [
        (zstd_package.FramePacker, zstd_arrow.expand_frame),
        (zstd_arrow.FramePacker, zstd_package.expand_frame),
        (zstd_arrow.FramePacker, zstd_arrow.expand_frame),
    ],
    ids=["package to arrow", "arrow to package", "arrow to arrow"],
)
def test_what_one_packs_the_other_expands(size: int, packer: type, expand: object) -> None:
    content = (CONTENT * 40)[:size]
    frame = packer(1).pack(memoryview(content))
    assert callable(expand)
    assert expand(memoryview(frame), size) == content
    assert expand(memoryview(frame), size + 1) is None


def test_a_frame_that_does_not_name_its_size_is_refused_by_both() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(CONTENT)
    for module in (zstd_package, zstd_arrow):
        assert module.expand_frame(memoryview(frame), len(CONTENT)) is None


@given(st.integers(0, len(FRAME) - 1), st.integers(0, 255))
def test_a_changed_octet_gives_the_same_answer_by_both(at: int, octet: int) -> None:
    frame = memoryview(FRAME[:at] + bytes((octet,)) + FRAME[at + 1 :])
    expected = zstd_package.expand_frame(frame, len(CONTENT))
    assert zstd_arrow.expand_frame(frame, len(CONTENT)) == expected


@given(st.integers(0, len(FRAME)))
def test_a_frame_that_is_cut_short_is_refused_by_both(size: int) -> None:
    for module in (zstd_package, zstd_arrow):
        content = module.expand_frame(memoryview(FRAME[:size]), len(CONTENT))
        assert (content == CONTENT) == (size == len(FRAME))
