"""File names for any AMQP name."""

import unicodedata
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.names import ENCODED_NAME_BYTES_MAX, encode_name, log_directory

# Any 255 bytes from the wire, as the protocol decodes them.
wire_names = st.binary(max_size=255).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
any_names = st.one_of(wire_names, st.text("aA.%~/-_ con", max_size=6), st.text(max_size=255))

# The alphabet of these is what an encoded name may consist of: the hardest to tell apart.
lookalikes = st.text("aA%.~0123456789abcdef-", max_size=8)


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("orders", "orders"),
        ("order-events_2.v1", "order-events_2.v1"),
        ("Orders", "%4frders"),
        ("/", "%2f"),
        ("", "%"),
        (".", "%2e"),
        ("..", "%2e%2e"),
        ("...", "%2e.%2e"),
        (".hidden", "%2ehidden"),
        ("dot.", "dot%2e"),
        ("../x", "%2e.%2fx"),
        ("a/b", "a%2fb"),
        ("a\\b", "a%5cb"),
        ("a\0b", "a%00b"),
        ("%2F", "%252%46"),
        ("%2f", "%252f"),
        ("a~b", "a%7eb"),
        ("~", "%7e"),
        ("CON", "%43%4f%4e"),
        ("con", "%63on"),
        ("con.", "%63on%2e"),
        ("nul.txt", "%6eul.txt"),
        ("com1", "%63om1"),
        ("console", "console"),
        ("com10", "com10"),
        ("ü", "%c3%bc"),
        ("\udcff", "%ff"),
        ("a b", "a%20b"),
    ],
)
def test_a_name_is_encoded_as_documented(name: str, encoded: str) -> None:
    assert encode_name(name) == encoded


@given(any_names)
def test_an_encoded_name_is_one_safe_lower_case_component(name: str) -> None:
    encoded = encode_name(name)
    assert 1 <= len(encoded) <= ENCODED_NAME_BYTES_MAX
    assert encoded.isascii()
    assert encoded == encoded.lower()
    assert set(encoded) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-%~")
    assert not encoded.startswith(".")
    assert not encoded.endswith(".")
    assert Path(encoded).name == encoded


@given(any_names | lookalikes, any_names | lookalikes)
def test_different_names_never_share_a_file(one: str, other: str) -> None:
    assert (encode_name(one) == encode_name(other)) == (one == other)


@given(any_names)
def test_an_encoded_name_is_a_file_name_on_every_system_with_room_for_suffixes(name: str) -> None:
    file_name = f"{encode_name(name)}.json.tmp"
    assert len(file_name.encode()) <= 255
    assert file_name.split(".")[0] not in {"con", "prn", "aux", "nul"}


@given(any_names | lookalikes, any_names | lookalikes)
def test_different_names_stay_different_where_case_is_folded_and_unicode_normalised(
    one: str, other: str
) -> None:
    folded = [unicodedata.normalize("NFD", encode_name(name)).casefold() for name in (one, other)]
    assert (folded[0] == folded[1]) == (one == other)


@given(lookalikes)
def test_an_encoded_name_is_not_taken_by_the_name_that_looks_like_it(name: str) -> None:
    encoded = encode_name(name)
    assert encoded == name or encode_name(encoded) != encoded


def test_a_name_of_255_bytes_of_multi_byte_utf_8_keeps_its_beginning_and_ends_in_a_hash() -> None:
    encoded = encode_name("ü" * 127 + "x")
    assert len(encoded) == ENCODED_NAME_BYTES_MAX
    assert encoded.startswith("%c3%bc%c3%bc")
    assert encoded[-41] == "~"


def test_long_names_that_differ_only_at_the_end_have_different_files() -> None:
    assert encode_name("Q" * 254 + "1") != encode_name("Q" * 254 + "2")


def test_a_name_at_the_limit_is_not_hashed_and_one_past_it_is() -> None:
    assert encode_name("q" * ENCODED_NAME_BYTES_MAX) == "q" * ENCODED_NAME_BYTES_MAX
    assert "~" in encode_name("q" * (ENCODED_NAME_BYTES_MAX + 1))


def test_a_surrogate_that_stands_for_no_byte_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        encode_name("\ud800")


def test_a_log_directory_lies_below_the_storage_path_whatever_the_names() -> None:
    incarnation = UUID("12345678-1234-5678-1234-567812345678")
    path = log_directory(Path("data"), "../..", "", incarnation)
    assert path == Path("data/logs/%2e.%2f.%2e/%", "12345678-1234-5678-1234-567812345678")
