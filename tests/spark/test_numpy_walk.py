"""The walk by numpy ends where the kernel's ends, and notes the same records, for any bytes."""

import random
from array import array
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appendlog.layout import _walking_py, crc
from appendlog.layout.chunk import encode_gap_marker
from appendlog.layout.compression import ChunkCompressor
from appendlog.layout.message import encode_message
from appendlog.layout.records import ReadableBuffer, encode_chunk
from appendlog.spark.decoding import numpy_walk

SALT = 0x89ABCDEF
ALL = (0, 1 << 62, 1 << 30, 1 << 30)

bodies = st.binary(max_size=60) | st.just(b"of one size")
a_message = bodies.map(lambda body: encode_message(1, b"", b"q", b"\0\0", body))
batches = st.lists(a_message, min_size=1, max_size=12)


def walked(
    kernel: ModuleType, data: ReadableBuffer, *limits: int, room: int = 200
) -> tuple[object, ...]:
    """Return how a walk ended, and all that it wrote."""
    places = (array("q", [-1]) * room, array("q", [-1]) * room)
    more = (array("I", [7]) * room, array("I", [7]) * room)
    return (*kernel.walk_chunks(data, *limits, *places, *more), *places, *more)


def chunks_of(groups: list[list[bytes]], chance: random.Random) -> tuple[list[bytes], int]:
    """Return chunks of all kinds, and the offset behind them."""
    base, chunks = 0, []
    for batch in groups:
        deltas, step = None, 1
        if chance.random() < 0.2:
            step = chance.randrange(1, 5)
            deltas = list(range(0, len(batch) * step, step))
        transaction = bytes(16) if chance.random() < 0.2 else b""
        times = [number * 3 for number in range(len(batch))]
        chunk = encode_chunk(batch, base, deltas, 5, times, SALT, transaction)
        if chance.random() < 0.1:
            chunk = ChunkCompressor(0).compress(chunk)
        chunks.append(chunk)
        end = base + (len(batch) - 1) * step + 1
        base = end + chance.choice([0, 0, 0, 3])
        if base > end or chance.random() < 0.1:
            chunks.append(encode_gap_marker(end, base, 0, 5, SALT))
    return chunks, base


@pytest.fixture(params=[False, True], ids=["crc32c", "folded"])
def is_folded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have CRCs by the package, and without it."""
    monkeypatch.setattr(crc, "IS_FOLDED", request.param)


@pytest.mark.usefixtures("is_folded")
def test_any_chunks_with_any_limits_whole_or_damaged() -> None:
    @settings(max_examples=300)
    @given(st.lists(batches, min_size=1, max_size=6), st.randoms(use_true_random=False))
    def check(groups: list[list[bytes]], chance: random.Random) -> None:
        chunks, base = chunks_of(groups, chance)
        if chance.random() < 0.2:
            chance.shuffle(chunks)
        data = bytearray(b"".join(chunks))
        for _ in range(chance.choice([0, 0, 1, 3])):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        end = chance.choice([len(data), chance.randrange(len(data) + 1)])
        limits = (
            chance.choice([0, 0, chance.randrange(end + 1)]),
            end,
            SALT,
            chance.choice([0, chance.randrange(base + 2)]),
            chance.choice([1 << 62, chance.randrange(base + 2)]),
            chance.choice([1 << 30, 1, chance.randrange(1, 20)]),
            chance.choice([1 << 30, 1, chance.randrange(1, 500)]),
        )
        room = chance.choice([200, chance.randrange(1, 5)])
        expected = walked(_walking_py, bytes(data), *limits, room=room)
        assert walked(numpy_walk, bytes(data), *limits, room=room) == expected
        assert walked(numpy_walk, memoryview(data), *limits, room=room) == expected

    check()


@given(st.binary(max_size=300), st.sampled_from([b"", b"A", b"AQL", b"AQLC\0\0\0\0"]))
def test_garbage(data: bytes, front: bytes) -> None:
    data = front + data
    limits = (0, len(data), SALT, *ALL)
    assert walked(numpy_walk, data, *limits) == walked(_walking_py, data, *limits)


@given(batches, st.data())
def test_records_that_contradict_their_header(batch: list[bytes], data: st.DataObject) -> None:
    good = encode_chunk(batch, 0, None, 0, None, SALT)
    chunk = bytearray(encode_chunk(batch, 20, None, 0, None, SALT))
    at = data.draw(st.sampled_from([12, 14, 20, 32, 88]) | st.integers(88, len(chunk) - 1))
    chunk[at] = data.draw(st.integers(0, 255))
    chunk[4:8] = crc.crc32c(bytes(chunk[8:])).to_bytes(4, "little")
    control = encode_gap_marker(15, 20, 0, 0, SALT)
    for octets in (bytes(chunk), good + bytes(chunk), good + control + bytes(chunk)):
        limits = (0, len(octets), SALT, *ALL)
        assert walked(numpy_walk, octets, *limits) == walked(_walking_py, octets, *limits)


def test_more_chunks_than_are_looked_at_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_walk, "_CHUNKS_MAX", 3)
    batch = [encode_message(1, b"", b"q", b"\0\0", b"x" * size) for size in range(4)]
    data = b"".join(encode_chunk(batch, at * 4, None, at, None, SALT) for at in range(20))
    for limits in (ALL, (7, 77, 200, 1 << 30), (0, 80, 50, 300)):
        expected = walked(_walking_py, data, 0, len(data), SALT, *limits)
        assert walked(numpy_walk, data, 0, len(data), SALT, *limits) == expected


def test_a_walk_outside_its_buffer_is_refused() -> None:
    for start, end in ((-1, 3), (0, 11)):
        with pytest.raises(ValueError, match="inside"):
            walked(numpy_walk, bytes(10), start, end, SALT, 0, 1, 1, 1)
