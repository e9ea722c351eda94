"""The framing kernels, compiled and interpreted, do the same with the same octets.

Needs the compiled kernel: `python setup.py build_ext --inplace`.
"""

from __future__ import annotations

import importlib
import mmap
from array import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog.layout.message import encode_message
from tests.protocol import wire


def kernels(build: str) -> SimpleNamespace:
    """Return the names of both framing kernels in one build, `py` or `c`."""
    modules = [
        importlib.import_module(f"amqp_server.protocol.{name}_{build}")
        for name in ("_events", "_scanning", "_writing")
    ]
    names = {name: value for module in modules for name, value in vars(module).items()}
    return SimpleNamespace(**(names | {"files": [module.__file__ for module in modules]}))


interpreted = kernels("py")
compiled = kernels("c")

BUILDS = (interpreted, compiled)
STALE = 0x5A


def test_one_build_is_compiled_and_the_other_is_not() -> None:
    assert all(file.endswith(".so") for file in compiled.files)
    assert all(file.endswith(".py") for file in interpreted.files)


def scan_pieces(
    build: SimpleNamespace,
    pieces: list[bytes],
    make_buffer: Callable[[bytearray, int], bytes | bytearray],
    body_bytes_max: int = wire.BODY_MAX,
) -> list[Any]:
    """Return, for each piece, the position of the rest and the events, as a connection scans."""
    scanner = build.FrameScanner(wire.FRAME_MAX, body_bytes_max)
    buffer = bytearray([STALE]) * (sum(map(len, pieces)) + 16)
    seen: list[Any] = []
    rest = b""
    for piece in pieces:
        end = len(rest) + len(piece)
        buffer[:end] = rest + piece
        events: list[Any] = []
        at = scanner.scan(make_buffer(buffer, end), 0, end, events)
        # Runs are filled while the scan goes on: look at them when it is over.
        shown = [(type(each).__name__, *build.fields_of(each)) for each in events]
        seen.append((at, shown))
        rest = bytes(buffer[at:end])
        if events and isinstance(events[-1], build.BrokenFrame):
            break
    return seen


def whole_buffer(buffer: bytearray, end: int) -> bytearray:
    return buffer


def received_octets(buffer: bytearray, end: int) -> bytes:
    return bytes(buffer[:end])


def assert_builds_agree(pieces: list[bytes], body_bytes_max: int = wire.BODY_MAX) -> None:
    expected = scan_pieces(interpreted, pieces, whole_buffer, body_bytes_max)
    for build in BUILDS:
        for make_buffer in (whole_buffer, received_octets):
            assert scan_pieces(build, pieces, make_buffer, body_bytes_max) == expected


places = st.lists(st.integers(1, 60_000), max_size=8)


@given(frames=wire.frame_streams(), places=places, body_bytes_max=st.sampled_from([1, 500, 4_088]))
def test_both_builds_scan_well_formed_streams_alike(
    frames: list[bytes], places: list[int], body_bytes_max: int
) -> None:
    assert_builds_agree(wire.split_at(b"".join(frames), places), body_bytes_max)


@given(
    frames=wire.frame_streams(),
    places=places,
    flips=st.lists(
        st.tuples(st.integers(0, 60_000), st.sampled_from([1, 2, 4, 0x80, 0xFF])),
        min_size=1,
        max_size=4,
    ),
    cut=st.integers(0, 60_000),
)
def test_both_builds_scan_damaged_streams_alike(
    frames: list[bytes], places: list[int], flips: list[tuple[int, int]], cut: int
) -> None:
    octets = bytearray(b"".join(frames))
    for place, mask in flips:
        if octets:
            octets[place % len(octets)] ^= mask
    if octets and cut % 3 == 0:
        del octets[cut % len(octets) :]

    assert_builds_agree(wire.split_at(bytes(octets), places))


# The first octets of frames are where decisions are taken, so damage is aimed at them.
@given(
    run=wire.publish_runs(),
    which=st.integers(0, 20),
    place=st.integers(0, 40),
    octet=st.integers(0, 255),
    places=places,
)
def test_both_builds_judge_damaged_publishes_alike(
    run: list[wire.Publish], which: int, place: int, octet: int, places: list[int]
) -> None:
    frames = [bytearray(each) for publish in run for each in publish.frames()]
    damaged = frames[which % len(frames)]
    damaged[place % len(damaged)] = octet

    assert_builds_agree(wire.split_at(b"".join(frames), places))


@given(octets=st.binary(max_size=200), places=st.lists(st.integers(1, 200), max_size=4))
def test_both_builds_scan_garbage_alike(octets: bytes, places: list[int]) -> None:
    assert_builds_agree(wire.split_at(octets, places))


@given(flags=st.integers(0, 0xFFFF), values=st.binary(max_size=60), at=st.integers(0, 20))
def test_both_builds_follow_property_lists_alike(flags: int, values: bytes, at: int) -> None:
    at = min(at, len(values))
    # The lengths inside may claim anything: only `end` says what there is.
    end = interpreted.property_list_end(values, at, len(values), flags)

    assert compiled.property_list_end(values, at, len(values), flags) == end
    if end >= 0 and flags & 0x1000:
        position = interpreted.delivery_mode_position(values, at, flags)
        assert compiled.delivery_mode_position(values, at, flags) == position
        assert at <= position < end


messages = st.builds(
    encode_message,
    st.integers(0, 15),
    st.binary(max_size=5) | st.just(b"e" * 255),
    st.binary(max_size=5) | st.just(b"k" * 255),
    wire.property_lists().map(lambda properties: properties.octets),
    wire.bodies,
)


@given(
    alike=st.lists(st.tuples(messages, st.integers(1, 3)), max_size=6),
    channel=st.sampled_from([1, 255, 256, 65_535]),
    consumer_tag=st.binary(max_size=8) | st.just(b"c" * 255),
    first_tag=st.sampled_from([1, 2**32 - 1, 2**63]),
    redelivered=st.booleans(),
    frame_max=st.sampled_from([4_096, 5_000, 131_072]),
)
def test_both_builds_encode_deliveries_alike(
    alike: list[tuple[bytes, int]],
    channel: int,
    consumer_tag: bytes,
    first_tag: int,
    redelivered: bool,
    frame_max: int,
) -> None:
    run = [message for message, count in alike for _ in range(count)]
    encoded = [
        build.encode_deliveries(run, channel, consumer_tag, first_tag, redelivered, frame_max)
        for build in BUILDS
    ]

    assert encoded[0] == encoded[1]


@pytest.mark.parametrize("has_offset", [False, True])
def test_both_builds_encode_messages_of_mixed_sizes_alike(has_offset: bool) -> None:
    sizes = [5, 5, 7, 7, 0, 0, 7, 5, 5, 5_000, 5, 5_000, 5_000, 4_088, 4_088, 4_089, 4_089, 5]
    run = [
        encode_message(0, b"", key, b"\0\0", bytes([number]) * size)
        for key in (b"one", b"two", b"longer")
        for number, size in enumerate(sizes)
    ]
    places = (7, b"tag", 2**32 - 5, False, 4_096, 3 if has_offset else -1)

    expected = interpreted.encode_deliveries(run, *places)
    for build in BUILDS:
        assert build.encode_deliveries(run, *places) == expected
        assert build.encode_run(*laid_out(run, b"gap"), 0, len(run), *places) == expected


@given(
    alike=st.lists(st.tuples(messages, st.integers(1, 3)), max_size=6),
    gap=st.binary(max_size=3),
    skipped=st.integers(0, 3),
    consumer_tag=st.binary(max_size=8) | st.just(b"c" * 255),
    first_tag=st.sampled_from([1, 2**32 - 1, 2**63]),
    redelivered=st.booleans(),
    frame_max=st.sampled_from([4_096, 5_000, 131_072]),
)
def test_a_run_in_a_buffer_is_encoded_as_the_same_messages_are(
    alike: list[tuple[bytes, int]],
    gap: bytes,
    skipped: int,
    consumer_tag: bytes,
    first_tag: int,
    redelivered: bool,
    frame_max: int,
) -> None:
    run = [message for message, count in alike for _ in range(count)]
    buffer, positions, lengths = laid_out(run, gap)
    start = min(skipped, len(run))
    places = (300, consumer_tag, first_tag, redelivered, frame_max)
    expected = interpreted.encode_deliveries(run[start:], *places)
    mapping = mmap.mmap(-1, len(buffer) + 1)
    mapping[: len(buffer)] = buffer

    for build in BUILDS:
        for octets in (buffer, memoryview(bytearray(buffer)), mapping):
            encoded = build.encode_run(octets, positions, lengths, start, len(run), *places)
            assert encoded == expected


def laid_out(run: list[bytes], gap: bytes) -> tuple[bytes, array[int], array[int]]:
    """Return messages in a buffer, something between them, with their places."""
    buffer = b""
    positions, lengths = array("I"), array("I")
    for message in run:
        buffer += gap
        positions.append(len(buffer))
        lengths.append(len(message))
        buffer += message
    return buffer, positions, lengths


@given(octets=st.binary(max_size=60), size=st.integers(0, 80), at=st.integers(0, 60))
def test_both_builds_refuse_what_is_no_message_in_a_buffer(
    octets: bytes, size: int, at: int
) -> None:
    results = []
    for build in BUILDS:
        try:
            places = (array("I", [at]), array("I", [size]), 0, 1, 1, b"c", 1, False, 4_096)
            results.append(bytes(build.encode_run(octets, *places)))
        except ValueError as error:
            results.append(str(error).encode())
    assert results[0] == results[1]
    if at + size > len(octets) or size < 7:
        assert b"inside" in results[0]


@pytest.mark.parametrize("build", BUILDS)
def test_a_run_that_is_not_there_is_refused(build: SimpleNamespace) -> None:
    _, positions, lengths = laid_out([b"1234567"], b"")
    for start, stop in ((0, 2), (-1, 1)):
        with pytest.raises(ValueError, match="inside"):
            build.encode_run(b"1234567", positions, lengths, start, stop, 1, b"", 1, False, 4_096)


@given(
    message=messages,
    before=st.binary(max_size=300),
    after=st.binary(max_size=300),
    frame_max=st.sampled_from([4_096, 131_072]),
)
def test_both_builds_encode_content_alike(
    message: bytes, before: bytes, after: bytes, frame_max: int
) -> None:
    encoded = [build.encode_content(message, 7, before, after, frame_max) for build in BUILDS]

    assert encoded[0] == encoded[1]


@pytest.mark.parametrize("build", BUILDS)
def test_publishes_that_differ_in_the_length_of_a_property_are_told_apart(
    build: SimpleNamespace,
) -> None:
    run = [
        wire.Publish(
            1, b"e", b"k", 0, wire.PropertyList(b"\x80\x00" + wire.short_string(kind), 0), b"b", 100
        )
        for kind in (b"a", b"bc", b"de", b"")
    ]
    events: list[Any] = []
    octets = wire.octets_of(*run)

    build.FrameScanner(wire.FRAME_MAX, wire.BODY_MAX).scan(octets, 0, len(octets), events)

    taken = [message for event in events for message in event.messages]
    assert taken == [each.message for each in run]
