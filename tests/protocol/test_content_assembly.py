"""Contents frame by frame: what the pieces make, and which pieces are refused."""

import tracemalloc
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.content_assembly import AssemblyBudget, ContentAssembly
from amqp_server.protocol.errors import (
    FieldSyntaxError,
    FrameError,
    PreconditionFailed,
    ResourceError,
    UnexpectedFrame,
)
from amqp_server.protocol.methods import BasicPublish, decode_method
from appendlog.layout.message import encode_message
from tests.protocol import wire
from tests.protocol.reference import checked_flags_of


def assembly(
    method_payload: bytes = b"",
    message_bytes_max: int = 1 << 20,
    budget: AssemblyBudget | None = None,
) -> ContentAssembly:
    method_payload = method_payload or b"\x00\x3c\x00\x28\x00\x00\x01e\x01k\x00"
    method = decode_method(method_payload)
    assert isinstance(method, BasicPublish)
    budget = budget or AssemblyBudget(1 << 20)
    return ContentAssembly(method, method_payload, message_bytes_max, budget)


def header_payload(body_bytes: int, properties: bytes = b"\x00\x00", class_id: int = 60) -> bytes:
    return pack(">HHQ", class_id, 0, body_bytes) + properties


@given(publish=wire.publishes)
def test_the_pieces_make_the_message(publish: wire.Publish) -> None:
    content = assembly(publish.method_payload)
    payloads = [each[7:-1] for each in publish.frames()[1:]]

    whole = [content.take_header(payloads[0]), *map(content.take_body, payloads[1:])]

    assert whole == [False] * (len(payloads) - 1) + [True]
    assert content.message == publish.message
    properties = publish.properties
    assert content.message_flags == properties.message_flags
    assert content.checked_flags == checked_flags_of(properties.octets)
    assert content.method_payload == publish.method_payload


def test_names_that_are_not_utf8_stay_what_they_are() -> None:
    content = assembly(b"\x00\x3c\x00\x28\x00\x00\x02\xff\xfe\x01\x80\x00")
    content.take_header(header_payload(0))

    assert content.message == encode_message(0, b"\xff\xfe", b"\x80", b"\x00\x00", b"")


def test_an_empty_body_needs_no_frame() -> None:
    assert assembly().take_header(header_payload(0)) is True


def test_empty_body_frames_neither_end_a_message_nor_pile_up() -> None:
    content = assembly()
    content.take_header(header_payload(1))

    assert not any(content.take_body(b"") for _ in range(100))
    assert content.take_body(b"x") is True


def test_more_body_than_announced_is_a_frame_error() -> None:
    content = assembly()
    content.take_header(header_payload(3))
    content.take_body(b"ab")

    with pytest.raises(FrameError):
        content.take_body(b"cd")


def test_a_header_of_another_class_is_unexpected() -> None:
    with pytest.raises(UnexpectedFrame, match="class 10"):
        assembly().take_header(header_payload(0, class_id=10))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        bytes(13),
        header_payload(0, b"\x80\x00"),
        header_payload(0, b"\x00\x00left over"),
        header_payload(0, b"\x00\x01\x00\x00"),
        header_payload(0, b"\x20\x00\x00\x00\x00\x05a"),
    ],
    ids=bytes.hex,
)
def test_a_header_that_does_not_hold_together_is_a_syntax_error(payload: bytes) -> None:
    with pytest.raises(FieldSyntaxError):
        assembly().take_header(payload)


def test_a_message_larger_than_allowed_is_refused_by_its_header() -> None:
    assert assembly(message_bytes_max=10).take_header(header_payload(10)) is False
    with pytest.raises(PreconditionFailed, match="larger than configured max size 10"):
        assembly(message_bytes_max=10).take_header(header_payload(11))
    with pytest.raises(PreconditionFailed):
        assembly(message_bytes_max=10).take_header(header_payload(2**64 - 1))


@given(payload=st.binary(max_size=60))
def test_any_header_is_taken_or_refused_with_an_amqp_error(payload: bytes) -> None:
    content = assembly()
    try:
        content.take_header(payload)
    except (FieldSyntaxError, PreconditionFailed, UnexpectedFrame):
        return
    assert content.checked_flags == checked_flags_of(payload[12:])


def test_unfinished_bodies_share_a_budget_and_give_it_back() -> None:
    budget = AssemblyBudget(100)
    one, other = assembly(budget=budget), assembly(budget=budget)
    one.take_header(header_payload(80))
    other.take_header(header_payload(80))
    one.take_body(bytes(60))

    with pytest.raises(ResourceError, match="hold 140 bytes, more than its share of the 100"):
        other.take_body(bytes(60))

    one.release()
    assert other.take_body(bytes(80)) is True
    assert budget.held_bytes == 80


def test_one_owner_that_fills_the_budget_leaves_the_others_their_share() -> None:
    budget = AssemblyBudget(100)
    budget.take("greedy", 100)

    budget.take("modest", 50)
    with pytest.raises(ResourceError, match="hold 101 bytes"):
        budget.take("greedy", 1)
    with pytest.raises(ResourceError, match="hold 51 bytes"):
        budget.take("modest", 1)
    budget.release("greedy", 100)
    budget.take("modest", 50)
    budget.release("modest", 100)

    assert budget.held_bytes == 0
    budget.take("greedy", 100)


@pytest.mark.parametrize(("bytes_max", "held_bytes"), [(80, 80), (79, 10)])
def test_the_first_of_few_frames_reserves_the_room_of_all_if_there_is_any(
    bytes_max: int, held_bytes: int
) -> None:
    budget = AssemblyBudget(bytes_max)
    content = assembly(budget=budget)
    frames = [bytes([number]) * 10 for number in range(8)]
    content.take_header(header_payload(80))
    assert budget.held_bytes == 0
    content.take_body(frames[0])
    assert budget.held_bytes == held_bytes
    if bytes_max < 80:
        content.release()
        assert budget.held_bytes == 0
        return
    assert [content.take_body(each) for each in frames[1:]] == [False] * 6 + [True]
    assert content.message.endswith(b"".join(frames))
    assert content.message is content.message
    assert budget.held_bytes == 80
    content.release()
    assert budget.held_bytes == 0


def test_a_small_first_frame_reserves_nothing() -> None:
    budget = AssemblyBudget(1 << 20)
    content = assembly(budget=budget)
    content.take_header(header_payload(81))
    content.take_body(bytes(10))
    assert budget.held_bytes == 10


def test_a_body_takes_the_room_of_what_has_arrived_and_is_not_copied_at_the_end() -> None:
    frame, frames = bytes(10_000), 100
    content = assembly(message_bytes_max=1 << 40, budget=AssemblyBudget(1 << 40))
    tracemalloc.start()
    try:
        content.take_header(header_payload(1 << 40))
        assert tracemalloc.get_traced_memory()[0] < 2 * len(frame)
        for number in range(1, frames + 1):
            content.take_body(frame)
            # A list of the frames would hold this one object only.
            assert tracemalloc.get_traced_memory()[0] < 1.3 * number * len(frame) + 2_000

        whole = content.message

        assert tracemalloc.get_traced_memory()[1] < 1.3 * frames * len(frame)
    finally:
        tracemalloc.stop()
    assert whole.endswith(bytes(frames * len(frame)))
    assert content.message is whole
