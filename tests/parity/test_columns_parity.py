"""Both builds of the columns kernel and the reference make the same rows of any bytes."""

import random
from array import array

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from appendlog.layout import _columns_c, _tables_c
from appendlog.layout.columns import (
    INTERPRETED,
    Kernels,
)
from appendlog.layout.message import encode_message
from appendlog.segments.read_result import Records
from appendlog.spark.decoding.kernel_decoder import KernelDecoder
from appendlog.spark.decoding.malformed import MalformedMessageError
from appendlog.spark.schema.columns import KNOWN_ROWS, RowSchema
from appendlog.spark.schema.forms import HEADERS_FORMS, kafka_rows, with_headers_as
from tests.spark.builders import all_kinds_of_messages, plain_messages, records_of
from tests.spark.reference_decoder import ReferenceDecoder
from tests.spark.test_headers import VALUES, as_headers

COMPILED = Kernels(_columns_c, _tables_c)

short = st.one_of(
    st.just(b""), st.text(max_size=30).map(str.encode), st.binary(max_size=255)
).filter(lambda text: len(text) <= 255)
tables = st.one_of(
    st.dictionaries(st.text(max_size=5), VALUES, max_size=4).map(as_headers),
    st.binary(max_size=40),
    st.sampled_from([b"\x01aV\x01aI\0\0\0\1", b"\x01a" + b"l" + b"\x80" + bytes(7), b"\0V" * 80]),
)


@st.composite
def property_lists(draw: st.DrawFn) -> bytes:
    """Draw flags and the values that they announce; at times cut, or flipped."""
    flags = draw(st.integers(0, 0xFFFF) | st.sampled_from([0, 0xFFFC, 0x3000, 0x2000, 0xB8A8]))
    flags &= ~1 | draw(st.integers(0, 1))
    parts = [flags.to_bytes(2, "big")]
    if flags & 1:
        parts.append(draw(st.sampled_from([b"\0\0", b"\0\1\0\0", b"\0\2", b""])))
    for bit in range(14):
        if not flags & 0x8000 >> bit:
            continue
        if bit == 2:
            table = draw(tables)
            parts.append(len(table).to_bytes(4, "big") + table)
        elif bit in (3, 4):
            parts.append(draw(st.binary(min_size=1, max_size=1)))
        elif bit == 9:
            parts.append(draw(st.integers(0, 2**64 - 1)).to_bytes(8, "big"))
        else:
            text = draw(short)
            parts.append(bytes([len(text)]) + text)
    encoded = b"".join(parts)
    if draw(st.integers(0, 5)) == 0:
        encoded = encoded[: draw(st.integers(0, len(encoded)))]
    return encoded


messages = st.builds(
    encode_message,
    st.integers(0, 255),
    short,
    short,
    property_lists() | st.binary(max_size=20),
    st.binary(max_size=40),
)
schemas = st.one_of(
    st.just(KNOWN_ROWS),
    st.sets(st.sampled_from(KNOWN_ROWS.names), min_size=1).map(KNOWN_ROWS.only),
    st.sampled_from([kafka_rows(include_headers=True), *map(with_headers_as, HEADERS_FORMS)]),
)


def in_parts(batch: list[bytes], chance: random.Random) -> list[Records]:
    """Return messages as parts of a read: with gaps, or one after the other."""
    parts, offset = [], chance.choice([0, 1 << 61])
    at = 0
    while at < len(batch):
        count = chance.randrange(1, len(batch) - at + 1)
        offsets: range | array[int] = range(offset, offset + count)
        if chance.random() < 0.5:
            offsets = array("q", [offset + 3 * n for n in range(count)])
        times = [chance.randrange(-(1 << 63), 1 << 63) for _ in range(count)]
        parts.append(records_of(batch[at : at + count], offsets, times))
        at += count
        offset = offsets[-1] + chance.choice([1, 1000])
    return parts


def built(
    decoder: KernelDecoder | ReferenceDecoder, parts: list[Records]
) -> tuple[pa.RecordBatch | int, int]:
    """Return the batch, or the offset of what is no message, and what could not be decoded."""
    try:
        batch = decoder.build(parts)
    except MalformedMessageError as error:
        return error.offset, 0
    batch.validate(full=True)
    return batch, decoder.undecodable


def check(parts: list[Records], schema: RowSchema) -> None:
    """Check that all decoders make the same of records, also when they do it again."""
    expected, undecodable = built(ReferenceDecoder("/", "q", schema), parts)
    for decoder in (
        KernelDecoder("/", "q", schema, COMPILED),
        KernelDecoder("/", "q", schema, INTERPRETED),
    ):
        for times in (1, 2):
            found, count = built(decoder, parts)
            if isinstance(expected, int):
                assert found == expected
                continue
            assert isinstance(found, pa.RecordBatch)
            assert found.equals(expected, check_metadata=True)
            assert count == times * undecodable


@pytest.mark.parametrize("name", KNOWN_ROWS.names)
def test_every_column_alone_is_the_references(name: str) -> None:
    check([records_of(all_kinds_of_messages())], KNOWN_ROWS.only([name]))


@settings(max_examples=settings().max_examples * 2)
@given(st.lists(messages, max_size=12), schemas, st.randoms(use_true_random=False))
@example([], KNOWN_ROWS, random.Random(0))
def test_any_messages_make_the_rows_of_the_reference(
    batch: list[bytes], schema: RowSchema, chance: random.Random
) -> None:
    check(in_parts(batch, chance), schema)


@given(st.lists(messages, min_size=1, max_size=8), schemas, st.randoms(use_true_random=False))
def test_flipped_and_cut_messages_make_the_rows_of_the_reference(
    batch: list[bytes], schema: RowSchema, chance: random.Random
) -> None:
    for at, message in enumerate(batch):
        changed = bytearray(message)
        for _ in range(chance.choice([0, 0, 1, 3])):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        batch[at] = bytes(changed[: chance.choice([len(changed), chance.randrange(len(changed))])])
    check(in_parts(batch, chance), schema)


@given(tables, st.integers(0, 8))
def test_any_headers_make_the_column_of_the_reference_in_every_form(
    table: bytes, others: int
) -> None:
    properties = b"\x20\x00" + len(table).to_bytes(4, "big") + table
    message = encode_message(1, b"", b"", properties, b"")
    records = records_of([message] * 3 + plain_messages(others))
    for schema in (kafka_rows(include_headers=True), *map(with_headers_as, HEADERS_FORMS)):
        check([records], schema.only(["headers"]))


@given(st.binary(max_size=30))
def test_utf8_is_what_python_says_it_is(key: bytes) -> None:
    check([records_of([encode_message(1, b"", key, b"", b"")])], KNOWN_ROWS.only(["key"]))


EDGES_OF_UTF8 = (
    "c080 c1bf c280 dfbf e08080 e09fbf e0a080 ed9fbf eda080 edbfbf ee8080 efbfbf f0808080 "
    "f08fbfbf f0908080 f48fbfbf f4908080 f5808080 ff fe 80 bf c2 e0a0 f09080 61c2 61e282ac61 "
    "616161616161616161c3a9 61616161616161c3 6161616161616161ff"
)


@pytest.mark.parametrize(
    "key", [bytes.fromhex(text) for text in EDGES_OF_UTF8.split()], ids=bytes.hex
)
def test_the_edges_of_utf8_are_pythons(key: bytes) -> None:
    check(
        [records_of([encode_message(1, key, key, b"", b"")])], KNOWN_ROWS.only(["key", "exchange"])
    )


def test_a_body_of_megabytes_and_many_rows_are_whole() -> None:
    large = encode_message(1, b"", b"k", b"\x80\x00\x01x", bytes(range(256)) * 20_000)
    check(
        [records_of([large, *plain_messages(9000), large])], KNOWN_ROWS.only(["value", "envelope"])
    )


def test_parts_of_one_buffer_and_of_several_are_told_apart() -> None:
    messages = all_kinds_of_messages()
    whole = records_of(messages)
    parts = [
        Records(
            whole.buffer,
            range(at, at + 2),
            whole.positions[at : at + 2],
            whole.lengths[at : at + 2],
            whole.timestamps_ns[at : at + 2],
        )
        for at in range(0, 8, 2)
    ]
    others = [records_of([message], [100 + at]) for at, message in enumerate(messages)]
    large = records_of([encode_message(1, b"", b"k", b"", bytes(17 << 20))], [1000])
    for mixed in (parts, [*parts[:2], *others, *parts[2:]], [*others, large, *parts]):
        check(mixed, KNOWN_ROWS)


def of_kind(kind: bytes, content: bytes) -> bytes:
    """Return a value that says how long it is."""
    return kind + len(content).to_bytes(4, "big") + content


def with_tables(tables_of_messages: list[bytes]) -> Records:
    """Return messages with these headers."""
    return records_of(
        [
            encode_message(1, b"", b"", b"\x20\x00" + of_kind(b"", table), b"")
            for table in tables_of_messages
        ]
    )


def check_headers(tables_of_messages: list[bytes]) -> None:
    """Check the column of headers in all its forms."""
    records = with_tables(tables_of_messages)
    for schema in (kafka_rows(include_headers=True), *map(with_headers_as, HEADERS_FORMS)):
        check([records], schema.only(["headers"]))


def test_headers_of_many_kilobytes_are_whole() -> None:
    wide = b"".join(b"\x01%c" % (n % 256) + b"l" + b"\x80" * 8 for n in range(60))
    wider = b"".join(b"\x02%02xl" % n + b"\x80" * 8 for n in range(200))
    long = b"\x01a" + of_kind(b"S", b"x" * 65_536)
    check_headers([wide, long, b"", wider, long] * 8)


def test_headers_that_grow_most_have_room() -> None:
    control = b"\x00" + of_kind(b"A", of_kind(b"S", b"\x01" * 90_000))
    singles = b"\x00" + of_kind(b"A", (b"f" + b"\x80\x00\x00\x01") * 20_000)
    doubles = b"\x00" + of_kind(b"A", (b"d" + b"\x80\x10" + bytes(6)) * 9_000)
    voids = b"\x00" + of_kind(b"A", b"V" * 90_000)
    empty = b"\x00" + of_kind(b"A", of_kind(b"F", b"") * 9_000)
    keys = b"".join(b"\x01%ct\x00" % n for n in range(1, 60))
    check_headers([control, keys, singles, doubles, voids, empty, b"", control])


def test_tables_in_tables_are_those_of_the_reference() -> None:
    def nested(levels: int, kind: bytes) -> bytes:
        inner = b""
        for _ in range(levels - 1):
            inner = (b"\x00" if kind == b"F" else b"") + of_kind(kind, inner)
        return inner if kind == b"F" else b"\x00" + inner

    keys = [b"count", b"reason", b"queue", b"routing-keys", b"exchange", b"$a", b"", b"a\xff"]
    entries = [b"%c%sV" % (len(key), key) for key in keys]
    tables_of_messages = [
        *(nested(levels, kind) for levels in (1, 2, 63, 64, 65) for kind in (b"F", b"A")),
        b"\x01t" + of_kind(b"F", b"".join(entries[:7])),
        b"\x01t" + of_kind(b"F", b"".join(entries)),
        b"\x01t" + of_kind(b"F", b"".join([*entries[:3], entries[1]])),
        b"\x01t" + of_kind(b"F", b"".join(b"\x01%cV" % n for n in range(100))),
        b"\x01t" + of_kind(b"F", b"\x01aI\x00"),
        b"\x01t" + of_kind(b"A", b"V?"),
        b"\x01td\x7f\xf0" + bytes(6) + b"\x01uf\x7f\xc0\x00\x00",
    ]
    check_headers(tables_of_messages * 2)


@pytest.mark.parametrize("size", [8192, 8191, 511, 512, 513, 7, 8, 9])
def test_rows_at_the_edges_of_bytes_and_steps_are_whole(size: int) -> None:
    names = ["content_type", "priority", "headers", "message_timestamp"]
    messages = (all_kinds_of_messages() * (size // 36 + 1))[:size]
    check([records_of(messages[:5]), records_of(messages[5:])], KNOWN_ROWS.only(names))
