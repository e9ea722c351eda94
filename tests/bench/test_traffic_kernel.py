"""The kernel of the traffic generator, interpreted and compiled: ids, digests, confirms."""

import struct
from types import ModuleType
from zlib import crc32

import pytest

from bench import amqp_frames
from bench.amqp_frames import (
    BASIC,
    BODY,
    FRAME_OVERHEAD_BYTES,
    HEADER,
    acknowledge,
    body_pieces,
    frame,
    method_frame,
    parse_frames,
    short_string,
)
from bench.traffic import _frames_py
from tests.bench.traffic_kernels import load_kernels

CHANNEL = 7
PHASE = 3


@pytest.fixture(scope="module")
def kernels() -> list[ModuleType]:
    return load_kernels()


@pytest.fixture(params=["interpreted", "compiled"])
def kernel(request: pytest.FixtureRequest, kernels: list[ModuleType]) -> ModuleType:
    chosen: ModuleType = kernels[request.param == "compiled"]
    assert (request.param == "compiled") == chosen.COMPILED
    return chosen


def body(publisher: int, number: int, tail: bytes = b"tail", *, phase: int = PHASE) -> bytes:
    serial = phase << 56 | publisher << 40 | number
    head = f"{serial:016x}{1_000_000_007:016x}".encode()
    return head + f"{crc32(head, crc32(tail)):08x}".encode() + tail


def delivery(tag: int, content: bytes, *, is_get: bool = False) -> bytes:
    named = b"" if is_get else short_string("consumer")
    rest = short_string("exchange") + short_string("a.routing.key")
    arguments = named + struct.pack(">QB", tag, 0) + rest + (bytes(4) if is_get else b"")
    header = struct.pack(">HHQH", BASIC, 0, len(content), 1 << 15) + short_string("text/plain")
    return (
        method_frame(CHANNEL, BASIC, 71 if is_get else 60, arguments)
        + frame(HEADER, CHANNEL, header)
        + b"".join(frame(BODY, CHANNEL, piece) for piece in body_pieces(content))
    )


def scan(
    kernel: ModuleType, octets: bytes, *, step: int = 0, publishers: int = 2
) -> tuple[_frames_py.DeliveryScanner, bytes]:
    """Give a scanner octets, all at once or step by step; return it and all of its acks."""
    scanner = kernel.DeliveryScanner(65_536, CHANNEL, kernel.SeenMessages(publishers), PHASE, 0)
    acks = b""
    for at in range(0, len(octets), step or len(octets)):
        part = octets[at : at + (step or len(octets))]
        scanner.view[scanner.filled : scanner.filled + len(part)] = part
        scanner.filled += len(part)
        scanner.scan(1_000_000_017)
        acks += bytes(scanner.acks[: scanner.ack_bytes])
    return scanner, acks


def counts(scanner: _frames_py.DeliveryScanner) -> tuple[int, ...]:
    return (scanner.received, scanner.corrupt, scanner.repeated, scanner.disordered)


@pytest.mark.parametrize("step", [0, 1, 7, 100])
@pytest.mark.parametrize("is_get", [False, True])
def test_deliveries_are_counted_and_acked_however_they_are_cut(
    kernel: ModuleType, step: int, is_get: bool
) -> None:
    tags = [5, 6, 1 << 40]
    octets = b"".join(
        delivery(tag, body(1, at, bytes(at * 50)), is_get=is_get) for at, tag in enumerate(tags)
    )
    scanner, acks = scan(kernel, octets, step=step)

    assert counts(scanner) == (3, 0, 0, 0)
    assert scanner.filled == 0
    assert scanner.last_tag == tags[-1]
    assert list(scanner.latencies_ns) == [10, 10, 10]
    assert acks == b"".join(
        acknowledge(CHANNEL, tag)[:-2] + b"\0" + acknowledge(CHANNEL, tag)[-1:] for tag in tags
    )


@pytest.mark.parametrize("step", [0, 7, 40])
@pytest.mark.parametrize("changed", [None, 0, 60, 99])
def test_a_body_in_several_frames_is_verified(
    kernel: ModuleType, monkeypatch: pytest.MonkeyPatch, step: int, changed: int | None
) -> None:
    monkeypatch.setattr(amqp_frames, "FRAME_BYTES_MAX", 50 + FRAME_OVERHEAD_BYTES)
    content = bytearray(body(0, 0, bytes(range(60))))
    if changed is not None:
        content[changed] ^= 1
    assert [len(piece) for piece in body_pieces(bytes(content))] == [50, 50]
    octets = delivery(1, bytes(content)) + delivery(2, body(0, 1))
    scanner, _ = scan(kernel, octets, step=step)
    assert counts(scanner) == (2, 0 if changed is None else 1, 0, 0)
    assert scanner.filled == 0


@pytest.mark.parametrize(
    ("at", "octet"),
    [(0, 2), (6, 0xFF), (57, 0), (58, 1)],
    ids=["another frame", "longer than announced", "no end", "another second frame"],
)
def test_frames_that_are_not_those_of_the_body_are_found(
    kernel: ModuleType, monkeypatch: pytest.MonkeyPatch, at: int, octet: int
) -> None:
    monkeypatch.setattr(amqp_frames, "FRAME_BYTES_MAX", 50 + FRAME_OVERHEAD_BYTES)
    content = body(0, 0, bytes(60))
    octets = bytearray(delivery(1, content))
    body_at = len(octets) - len(content) - 2 * FRAME_OVERHEAD_BYTES
    octets[body_at + at] = octet
    scanner, _ = scan(kernel, bytes(octets))
    assert scanner.fault_at == 0


@pytest.mark.parametrize("at", [0, 15, 16, 31, 32, 39, 40, 43])
def test_an_octet_that_changes_anywhere_in_a_body_is_found(kernel: ModuleType, at: int) -> None:
    changed = bytearray(body(0, 0))
    changed[at] ^= 1
    scanner, _ = scan(kernel, delivery(1, bytes(changed)) + delivery(2, body(0, 1)))

    assert counts(scanner) == (2, 1, 0, 0)


def test_repeated_disordered_and_foreign_messages_are_told_apart(kernel: ModuleType) -> None:
    numbers = [(0, 0), (0, 2), (1, 0), (0, 1), (0, 2)]
    octets = b"".join(delivery(tag, body(*each)) for tag, each in enumerate(numbers, 1))
    scanner, _ = scan(kernel, octets)
    assert counts(scanner) == (5, 0, 1, 1)

    scanner, _ = scan(kernel, delivery(1, body(0, 0, phase=PHASE - 1)))
    assert counts(scanner) == (1, 0, 1, 0)

    scanner, _ = scan(kernel, delivery(1, body(2, 0)) + delivery(2, b"short" * 8))
    assert counts(scanner) == (2, 2, 0, 0)


def test_messages_are_marked_once_with_any_number(kernel: ModuleType) -> None:
    seen = kernel.SeenMessages(2)
    marked = [seen.mark(1, number) for number in (0, 70_000, 4095, 4096, 70_000, 0)]

    assert marked == [True, True, True, True, False, False]
    assert seen.mark(0, 0)
    assert seen.distinct == 5


def test_a_frame_that_is_no_delivery_is_a_fault(kernel: ModuleType) -> None:
    close = method_frame(CHANNEL, 20, 40, struct.pack(">H", 404) + short_string("no queue"))
    scanner, _ = scan(kernel, delivery(1, body(0, 0)) + close + bytes(4))
    assert scanner.received == 1
    (found,) = parse_frames(bytes(scanner.view[scanner.fault_at : scanner.filled]))
    assert found.method_id == (20, 40)

    split = delivery(1, body(0, 0))
    broken = split[:-1] + b"\0"
    scanner, _ = scan(kernel, broken)
    assert (scanner.received, scanner.fault_at) == (0, 0)


def answer(tag: int, *, multiple: bool = False, method: int = 80) -> bytes:
    return method_frame(1, BASIC, method, struct.pack(">QB", tag, multiple))


def test_confirms_count_each_publish_once_in_any_order(kernel: ModuleType) -> None:
    confirms = kernel.ConfirmScanner(10, 64)
    confirms.open(6, 100)
    confirms.open(4, 200)
    assert confirms.outstanding() == 10
    assert not confirms.has_room(1)

    octets = answer(3) + answer(3) + answer(5, multiple=True) + answer(10, method=120)
    for at in range(len(octets)):
        confirms.feed(octets[at : at + 1], 1100)

    assert (confirms.confirmed, confirms.nacked, confirms.outstanding()) == (5, 1, 4)
    assert sorted(confirms.latencies_ns) == [1000] * 5
    assert confirms.has_room(6)
    assert not confirms.has_room(7)
    assert confirms.fault == b""


def test_publishes_wait_while_an_old_one_has_no_answer_and_all_places_are_used(
    kernel: ModuleType,
) -> None:
    """A broker may confirm all publishes but the oldest: their places must not be used again."""
    confirms = kernel.ConfirmScanner(4, 16)
    confirms.open(1, 0)
    while confirms.has_room(1):
        confirms.open(1, 0)
        confirms.feed(answer(confirms.published), 1)
    assert confirms.published == 15

    confirms.feed(answer(1), 1)
    assert confirms.outstanding() == 0
    assert confirms.has_room(4)


@pytest.mark.parametrize(
    "octets", [answer(3), answer(1, method=50), method_frame(0, 10, 50, bytes(16))]
)
def test_what_is_no_confirm_of_an_open_publish_is_a_fault(
    kernel: ModuleType, octets: bytes
) -> None:
    confirms = kernel.ConfirmScanner(4, 16)
    confirms.open(2, 0)
    confirms.feed(octets, 1)

    assert confirms.fault == octets
    assert confirms.confirmed == 0


def test_ids_never_repeat_and_both_builds_give_the_same(kernels: list[ModuleType]) -> None:
    interpreted, compiled = kernels
    serials = [publisher << 40 | number for publisher in range(10) for number in range(1000)]
    ids = [interpreted.mixed(serial, 0x1234_5678_9ABC_DEF0) for serial in serials]

    assert len(set(ids)) == len(serials)
    assert [compiled.mixed(serial, 0x1234_5678_9ABC_DEF0) for serial in serials] == ids
