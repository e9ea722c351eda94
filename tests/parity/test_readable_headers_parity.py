"""Where headers cannot be decoded any more: both builds stop where decoding them would.

Needs the compiled kernel: `python setup.py build_ext --inplace`.
"""

from __future__ import annotations

import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.framing import copies_in_headers
from amqp_server.protocol.readable_headers import split_headers
from amqp_server.protocol.tables import decode_table
from appendlog.layout.headers import split_headers as split_exported_headers
from tests.protocol.header_tables import any_entries, entry, longstr, nested, whole_entries

COPIES = [entry(name, b"V") for name in (b"CC", b"BCC", b"cc", b"CCC", b"CB", b"B\x02CC")]
BUILDS = [
    importlib.import_module(f"amqp_server.protocol._headers_{build}") for build in ("py", "c")
]


def is_decodable(entries: bytes) -> bool:
    try:
        decode_table(longstr(entries))
    except FieldSyntaxError:
        return False
    return True


@given(entries=any_entries)
def test_both_builds_stop_at_the_first_entry_that_cannot_be_decoded(entries: bytes) -> None:
    end, compiled_end = (build.readable_end(entries, 0, len(entries)) for build in BUILDS)

    assert end == compiled_end
    assert is_decodable(entries[:end])
    # What the next entry might be: all that is left, or a part of it.
    assert not any(is_decodable(entries[end:stop]) for stop in range(end + 1, len(entries) + 1))
    assert (end == len(entries)) == is_decodable(entries)


@given(
    entries=any_entries
    | st.lists(st.sampled_from(COPIES) | whole_entries, max_size=4).map(b"".join)
)
def test_both_builds_see_whether_copies_are_named(entries: bytes) -> None:
    named, compiled_named = (build.copies_named(entries, 0, len(entries)) for build in BUILDS)

    assert named == compiled_named
    if not is_decodable(entries):
        assert named == -1
    else:
        assert named == bool({"CC", "BCC"} & set(decode_table(longstr(entries), 0)[0]))


@given(entries=whole_entries)
def test_whole_headers_are_readable_wherever_they_are(entries: bytes) -> None:
    around = b"\xff" + entries + b"\xff"
    for build in BUILDS:
        assert build.readable_end(around, 1, 1 + len(entries)) == 1 + len(entries)


@given(entries=any_entries)
def test_headers_are_split_where_they_end_to_be_readable(entries: bytes) -> None:
    end = BUILDS[0].readable_end(entries, 0, len(entries))

    assert split_headers(longstr(entries)) == (longstr(entries[:end]), entries[end:])
    assert split_exported_headers(entries) == (entries[:end], entries[end:])
    properties = b"\xe0\x00\x01a\x01b" + longstr(entries)
    assert (copies_in_headers(properties, 2, 0xE000) >= 0) == (end == len(entries))


def test_headers_nest_to_64_levels() -> None:
    for depth, is_readable in ((63, True), (64, False)):
        entries = entry(b"a", b"V") + nested(depth)
        end = len(entries) if is_readable else len(entry(b"a", b"V"))
        assert [build.readable_end(entries, 0, len(entries)) for build in BUILDS] == [end, end]


@pytest.mark.parametrize("kind", [b"F", b"A", b"S", b"x"])
@pytest.mark.parametrize("octets", range(4))
def test_a_length_that_the_headers_end_inside_is_not_readable(kind: bytes, octets: int) -> None:
    whole = entry(b"a", b"V")
    entries = whole + entry(b"b", kind + bytes(octets))
    ends = [build.readable_end(entries, 0, len(entries)) for build in BUILDS]
    assert ends == [len(whole)] * 2
