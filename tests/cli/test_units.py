"""How durations and sizes are read and written."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.units import DURATION, SIZE, format_duration, format_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("500ms", 0.5),
        ("10ms", 0.01),
        ("5s", 5.0),
        ("0.25s", 0.25),
        ("1m", 60.0),
        ("2h", 7200.0),
        ("7d", 604_800.0),
        ("1.5h", 5400.0),
        (" 5 s ", 5.0),
    ],
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "s", "-1s", "+1s", "1e3s", "5 parsecs", "5S", "1m30s", "nan", "inf", "\u0665s", "1.s"],
)
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a duration: .*500ms, 5s, 1m or 2h"):
        DURATION.convert(text, None, None)


def test_a_duration_without_a_unit_is_refused_with_the_two_it_may_have_meant() -> None:
    with pytest.raises(click.BadParameter, match=r"'5' has no unit: write 5s, 5ms or 5m"):
        DURATION.convert("5", None, None)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("1024", 1024),
        ("12B", 12),
        ("1kB", 1000),
        ("1KB", 1000),
        ("256KiB", 262_144),
        ("256kib", 262_144),
        ("64MB", 64_000_000),
        ("16MiB", 16_777_216),
        ("16 MiB", 16_777_216),
        ("1.5GiB", 1_610_612_736),
        ("2GB", 2_000_000_000),
        ("1TiB", 1_099_511_627_776),
        ("3TB", 3_000_000_000_000),
    ],
)
def test_a_size_is_read_in_bytes(text: str, size_bytes: int) -> None:
    assert SIZE.convert(text, None, None) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "MiB", "-1", "5M", "5K", "1e6", "5zz", "0x10", "\u0665", "1,024"]
)
def test_what_is_no_size_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a size: .*256KiB, 64MB or 1024"):
        SIZE.convert(text, None, None)


@pytest.mark.parametrize("text", ["1.5", "0.1B", "0.0001KiB"])
def test_a_part_of_a_byte_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a whole number of bytes"):
        SIZE.convert(text, None, None)


@given(st.integers(min_value=0, max_value=10**12))
def test_a_duration_reads_back_as_it_was_written(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert DURATION.convert(format_duration(seconds), None, None) == seconds


@given(st.integers(min_value=0, max_value=2**60))
def test_a_size_reads_back_as_it_was_written(size_bytes: int) -> None:
    assert SIZE.convert(format_size(size_bytes), None, None) == size_bytes


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0"), (0.01, "10ms"), (5.0, "5s"), (90, "90s"), (7200.0, "2h")]
)
def test_a_duration_is_written_in_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0"), (1000, "1000"), (1536, "1536"), (16 * 2**20, "16MiB")]
)
def test_a_size_is_written_in_the_largest_unit_that_fits(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text
