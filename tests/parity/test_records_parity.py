"""Both builds of the records kernel agree on any bytes."""

import mmap
import random
import sys
from array import array
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from appendlog.layout import _encoding_c, _encoding_py, _walking_c, _walking_py
from appendlog.layout.chunk import decode_chunk_header, encode_gap_marker
from appendlog.layout.format import RECORD_BYTES_MIN
from appendlog.layout.message import HAS_EXPIRATION, HAS_PRIORITY, encode_message
from appendlog.layout.records import SUMS, WALK_END, ReadableBuffer, load_kernels
from appendlog.layout.summary import SegmentSummary

SALT = 0x89ABCDEF


@dataclass(frozen=True)
class RecordsKernel:
    """One build of both kernels."""

    encode_chunk: Any
    walk_chunks: Any
    cut_messages: Any
    sum_chunks: Any


def build_of(encoding: ModuleType, walking: ModuleType) -> RecordsKernel:
    return RecordsKernel(
        encoding.encode_chunk, walking.walk_chunks, walking.cut_messages, walking.sum_chunks
    )


compiled = build_of(_encoding_c, _walking_c)
interpreted = build_of(_encoding_py, _walking_py)
encode_chunk = compiled.encode_chunk
kernels = pytest.mark.parametrize(
    "kernel", [compiled, interpreted], ids=["compiled", "interpreted"]
)
names = st.binary(max_size=255)
properties = st.one_of(
    st.binary(max_size=40),
    st.integers(0, 255).map(lambda n: b"\x08\x00" + bytes([n])),
    st.integers(0, 10**15).map(lambda n: b"\x01\x00" + bytes([len(str(n))]) + b"%d" % n),
    st.just(b"\x09\x00\x07\x0260"),
)
a_message = st.builds(
    encode_message, st.integers(0, 15), names, names, properties, st.binary(max_size=300)
)
batches = st.lists(
    st.one_of(a_message, st.just(encode_message(1, b"", b"q", b"\0\0", b"x"))),
    min_size=1,
    max_size=30,
)


Walked = tuple[tuple[int, int, int], tuple[list[int], list[int], list[bytes]]]


def walked(
    kernel: RecordsKernel, data: ReadableBuffer, *limits: int, room: int | None = None
) -> Walked:
    """Return how a walk ended, and what it found: offsets, append times, messages."""
    if room is None:
        room = len(data) // RECORD_BYTES_MIN + 1
    offsets, times = (array("q", [-1]) * room for _ in range(2))
    positions, lengths = (array("I", [7]) * room for _ in range(2))
    places = (offsets, times, positions, lengths)
    status, position, next_offset, count, message_bytes = kernel.walk_chunks(data, *limits, *places)
    # Nothing is written behind what was found.
    assert set(offsets[count:]) | set(times[count:]) <= {-1}
    assert set(positions[count:]) | set(lengths[count:]) <= {7}
    messages = kernel.cut_messages(data, positions, lengths, 0, count)
    assert sum(map(len, messages)) == message_bytes
    found = (offsets[:count].tolist(), times[:count].tolist(), messages)
    return (status, position, next_offset), found


def summed(kernel: RecordsKernel, data: ReadableBuffer, *limits: int) -> tuple[int, list[int]]:
    """Return where the sums ended, and what they are."""
    sums = array("q", [0]) * SUMS
    return kernel.sum_chunks(data, *limits, sums), sums.tolist()


@pytest.mark.parametrize(
    ("built", "source"), [(_encoding_c, _encoding_py), (_walking_c, _walking_py)]
)
def test_the_compiled_kernel_is_compiled(built: ModuleType, source: ModuleType) -> None:
    assert not str(built.__file__).endswith(".py")
    assert str(source.__file__).endswith(".py")


@given(batches, st.data())
def test_both_builds_encode_the_same_chunk_and_walk_it_back(
    batch: list[bytes], data: st.DataObject
) -> None:
    count = len(batch)
    base = data.draw(st.integers(0, 1 << 61))
    gaps = data.draw(st.none() | st.lists(st.integers(1, 1 << 24), min_size=count, max_size=count))
    deltas = None if gaps is None else [sum(gaps[: n + 1]) for n in range(count)]
    times = data.draw(st.none() | st.lists(st.integers(0, 1 << 33), min_size=count, max_size=count))
    transaction = data.draw(st.sampled_from([b"", bytes(16)]))
    arguments = (batch, base, deltas, 1_700_000_000_000_000_000, times, SALT, transaction)
    encoded = encode_chunk(*arguments)
    assert encoded == interpreted.encode_chunk(*arguments)
    limits = (0, len(encoded), SALT, 0, 1 << 62, 1 << 30, 1 << 30)
    (status, position, _), (offsets, timestamps, messages) = walked(compiled, encoded, *limits)
    assert (status, position) == (WALK_END, len(encoded))
    assert messages == batch
    assert offsets == [base + delta for delta in deltas or range(count)]
    saturated = [min(time, (1 << 32) - 1) for time in times or [0] * count]
    assert timestamps == [1_700_000_000_000_000_000 + time for time in saturated]


@given(st.binary(max_size=400))
def test_both_builds_find_the_same_in_garbage(data: bytes) -> None:
    limits = (0, len(data), SALT, 0, 1 << 62, 1 << 30, 1 << 30)
    assert walked(compiled, data, *limits) == walked(interpreted, data, *limits)
    sum_limits = (0, len(data), len(data), SALT, 0)
    assert summed(compiled, data, *sum_limits) == summed(interpreted, data, *sum_limits)


@settings(max_examples=settings().max_examples * 3)
@given(st.lists(batches, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_both_builds_agree_on_truncated_flipped_and_repeated_chunks(
    groups: list[list[bytes]], chance: random.Random
) -> None:
    base, chunks = 0, []
    for batch in groups:
        chunks.append(encode_chunk(batch, base, None, 5, None, SALT))
        base += len(batch)
    if chance.random() < 0.2:
        chance.shuffle(chunks)
    data = bytearray(b"".join(chunks))
    for _ in range(chance.choice([0, 0, 1, 3])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    end = chance.choice([len(data), chance.randrange(len(data) + 1)])
    start = chance.choice([0, 0, chance.randrange(end + 1)])
    limits = (
        start,
        end,
        SALT,
        chance.choice([0, chance.randrange(base + 2)]),
        chance.choice([1 << 62, chance.randrange(base + 2)]),
        chance.choice([1 << 30, 1, chance.randrange(1, 20)]),
        chance.choice([1 << 30, 1, chance.randrange(1, 2000)]),
    )
    room = chance.choice([None, chance.randrange(1, 5)])
    found = walked(interpreted, bytes(data), *limits, room=room)
    assert walked(compiled, bytes(data), *limits, room=room) == found
    assert walked(compiled, memoryview(data), *limits, room=room) == found
    sum_limits = (start, end, chance.choice([end, (start + end) // 2]), SALT, limits[3])
    assert summed(compiled, bytes(data), *sum_limits) == summed(
        interpreted, bytes(data), *sum_limits
    )


@settings(max_examples=settings().max_examples // 2)
@given(batches)
def test_both_builds_walk_a_mapping_as_they_walk_bytes(batch: list[bytes]) -> None:
    data = encode_chunk(batch, 3, None, 5, None, SALT)
    with mmap.mmap(-1, len(data)) as mapping:
        mapping[:] = data
        limits = (0, len(data), SALT, 0, 1 << 62, 1 << 30, 1 << 30)
        expected = walked(interpreted, data, *limits)
        assert walked(compiled, mapping, *limits) == expected
        assert walked(interpreted, mapping, *limits) == expected


@given(st.lists(batches, min_size=1, max_size=4), st.integers(0, 1 << 40))
def test_sums_of_many_chunks_are_those_of_their_headers(
    groups: list[list[bytes]], base: int
) -> None:
    data, expected = b"", SegmentSummary(base, base, 3)
    for number, batch in enumerate(groups):
        chunk = encode_chunk(batch, base, None, 5 + number, None, SALT)
        expected.add(decode_chunk_header(chunk))
        base += len(batch)
        data += chunk
    for kernel in (compiled, interpreted):
        position, sums = summed(kernel, data, 0, len(data), len(data), SALT, 0)
        assert position == len(data)
        summary = SegmentSummary(expected.first_offset, expected.first_offset, 3)
        summary.add_sums(sums)
        assert summary == expected


@kernels
def test_sums_end_before_a_control_chunk_and_where_they_are_told_to(kernel: RecordsKernel) -> None:
    message = encode_message(1, b"", b"q", b"\0\0", b"x")
    first, second = (kernel.encode_chunk([message], at, None, 5, None, SALT) for at in (0, 1))
    data = first + second + encode_gap_marker(2, 9, 0, 5, SALT)
    size = len(first)
    assert summed(kernel, data, 0, len(data), len(data), SALT, 0)[0] == 2 * size
    assert summed(kernel, data, 0, len(data), size, SALT, 0)[0] == size
    assert summed(kernel, data, 0, len(data), size + 1, SALT, 0)[0] == 2 * size
    assert summed(kernel, data, size, 2 * size - 1, len(data), SALT, 0)[0] == size
    assert summed(kernel, data, 0, len(data), len(data), SALT, 1)[0] == 0
    for limits in ((-1, 3, 3, SALT, 0), (0, len(data) + 1, 3, SALT, 0)):
        with pytest.raises(ValueError, match="inside"):
            summed(kernel, data, *limits)


@kernels
def test_messages_outside_their_buffer_are_not_cut(kernel: RecordsKernel) -> None:
    places, lengths = array("I", [0, 5]), array("I", [5, 6])
    assert kernel.cut_messages(bytes(10), places, lengths, 0, 1) == [bytes(5)]
    assert kernel.cut_messages(bytes(10), places, lengths, 1, 1) == []
    for start, stop in ((0, 2), (-1, 1), (1, 3)):
        with pytest.raises(ValueError, match="inside"):
            kernel.cut_messages(bytes(10), places, lengths, start, stop)


@kernels
def test_impossible_chunks_are_refused(kernel: RecordsKernel) -> None:
    good = encode_message(1, b"", b"q", b"\0\0", b"x")
    for arguments in (
        ([], 0, None, 0, None, SALT),
        ([good, good], 0, [1], 0, None, SALT),
        ([good, good], 0, None, 0, [1], SALT),
        ([good], -1, None, 0, None, SALT),
        ([good], 1 << 62, None, 0, None, SALT),
        ([good, good], 0, [0, 0], 0, None, SALT),
        ([good], 0, [1 << 32], 0, None, SALT),
        ([good], 0, None, 0, [-1], SALT),
        ([good], 0, None, 0, None, SALT, b"short"),
        ([b""], 0, None, 0, None, SALT),
        ([b"\0\xff\0\0\0\0\0"], 0, None, 0, None, SALT),
        ([b"\0\0\xff\0\0\0\0"], 0, None, 0, None, SALT),
        ([b"\0\0\0\x01\0\0\0"], 0, None, 0, None, SALT),
        ([b"\0\0\0\xff\xff\xff\xff"], 0, None, 0, None, SALT),
    ):
        with pytest.raises(ValueError, match=r"message|transaction|offset"):
            kernel.encode_chunk(*arguments)


@kernels
def test_sums_of_a_chunk_are_right(kernel: RecordsKernel) -> None:
    batch = [
        encode_message(0, b"", b"q", b"\0\0", b"abc"),
        encode_message(1 | HAS_PRIORITY, b"", b"q", b"\x08\x00\x05", b"d"),
        encode_message(1 | HAS_EXPIRATION, b"", b"q", b"\x01\x00\x0260", b""),
        encode_message(1 | HAS_EXPIRATION, b"", b"q", b"\x01\x00\x0230", b""),
        encode_message(1 | HAS_PRIORITY, b"", b"q", b"\x08\x00\xff", b""),
    ]
    header = decode_chunk_header(kernel.encode_chunk(batch, 7, None, 1_000, [0, 1, 2, 3, 4], SALT))
    assert (header.base_offset, header.end_offset, header.record_count) == (7, 12, 5)
    assert (header.transient_count, header.body_bytes) == (1, 4)
    assert (header.first_timestamp_ns, header.last_timestamp_ns) == (1_000, 1_004)
    assert (header.min_expiry_ns, header.max_expiry_ns) == (30_001_003, 60_001_002)
    assert header.priority_bitmap == 1 << 5 | 1 << 63


def resealed(chunk: bytearray) -> bytes:
    """Return a changed chunk with a CRC that fits."""
    chunk[4:8] = crc32c(chunk[8:]).to_bytes(4, "little")
    return bytes(chunk)


@kernels
def test_records_that_contradict_their_header_are_a_fault_and_leave_nothing(
    kernel: RecordsKernel,
) -> None:
    batch = [encode_message(1, b"", b"q", b"\0\0", b"abc")] * 3
    good = kernel.encode_chunk(batch, 5, None, 0, None, SALT)
    size = len(batch[0]) + 12
    changes = [(88, 200), (88, 3), (88 + size + 4, 0), (88 + 2 * size + 4, 9), (20, 2), (32, 3)]
    for position, value in [
        *changes,
        (14, 1),
        (14, 4),
        (13, 2),
        (12, 2),
        (15, 1),
        (31, 0x40),
        (8, 70),
    ]:
        bad = bytearray(good)
        bad[position] = value
        data = resealed(bad)
        limits = (0, len(data), SALT, 0, 1 << 60, 99, 1 << 20)
        (status, stopped, next_offset), lists = walked(kernel, data, *limits)
        assert (status, stopped, next_offset, lists) == (2, 0, 0, ([], [], [])), position


@kernels
def test_a_packed_chunk_is_left_to_the_caller_and_only_version_1_has_one(
    kernel: RecordsKernel,
) -> None:
    plain = kernel.encode_chunk(
        [encode_message(1, b"", b"q", b"\0\0", b"")], 5, None, 0, None, SALT
    )
    for version, flags, status in ((0, 0, 0), (1, 2, 3), (1, 3, 3), (0, 2, 2)):
        changed = bytearray(plain)
        changed[12], changed[14] = version, flags
        data = resealed(changed)
        found, lists = walked(kernel, data, 0, len(data), SALT, 0, 1 << 60, 99, 1 << 20)
        assert found[0] == status
        assert len(lists[0]) == (status == 0)
        # What lies behind it is wanted: then it need not be opened.
        (after, position, _), _ = walked(kernel, data, 0, len(data), SALT, 6, 1 << 60, 99, 1 << 20)
        assert (after, position) == ((2, 0) if status == 2 else (0, len(data)))


@kernels
def test_a_walk_outside_its_buffer_is_refused(kernel: RecordsKernel) -> None:
    for start, end in ((-1, 3), (0, 11)):
        with pytest.raises(ValueError, match="inside"):
            walked(kernel, bytes(10), start, end, SALT, 0, 1, 1, 1)


@pytest.mark.parametrize("wish", ["AMQP_SERVER_PURE_PYTHON", "AMQP_SERVER_REQUIRE_COMPILED"])
def test_the_environment_chooses_the_build(monkeypatch: pytest.MonkeyPatch, wish: str) -> None:
    monkeypatch.delenv("AMQP_SERVER_PURE_PYTHON", raising=False)
    monkeypatch.setenv(wish, "1")
    is_pure = wish.endswith("PYTHON")
    sources, builds = (_encoding_py, _walking_py), (_encoding_c, _walking_c)
    assert load_kernels() == (sources if is_pure else builds, not is_pure)


@pytest.mark.parametrize("missing", ["_encoding_c", "_walking_c"])
def test_without_a_compiled_build_the_interpreted_one_is_used_unless_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name in ("AMQP_SERVER_PURE_PYTHON", "AMQP_SERVER_REQUIRE_COMPILED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, f"appendlog.layout.{missing}", None)
    assert load_kernels() == ((_encoding_py, _walking_py), False)
    monkeypatch.setenv("AMQP_SERVER_REQUIRE_COMPILED", "1")
    with pytest.raises(ImportError):
        load_kernels()
