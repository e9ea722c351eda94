"""What may come next on a channel, state by state, and what the machine makes of content."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.channel_machine import ChannelMachine, ChannelState
from amqp_server.protocol.content_assembly import AssemblyBudget
from amqp_server.protocol.errors import AmqpError, FieldSyntaxError, FrameError, PreconditionFailed
from amqp_server.protocol.framing import (
    AckRun,
    ContentBody,
    ContentHeader,
    MethodFrame,
    PublishRow,
    PublishRun,
)
from amqp_server.protocol.methods import (
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
)
from appendlog.layout.message import HAS_HEADERS, encode_message

if TYPE_CHECKING:
    from amqp_server.protocol.framing import Event

CHANNEL = 3
BODY_BYTES = 4
OPEN = MethodFrame(CHANNEL, ChannelOpen().encode())
CLOSE = MethodFrame(CHANNEL, ChannelClose().encode())
CLOSE_OK = MethodFrame(CHANNEL, ChannelCloseOk().encode())
QOS = MethodFrame(CHANNEL, BasicQos().encode())
PUBLISH = MethodFrame(CHANNEL, BasicPublish(exchange="e", routing_key="k").encode())
HEADER = ContentHeader(CHANNEL, pack(">HHQH", 60, 0, BODY_BYTES, 0))
EMPTY = ContentHeader(CHANNEL, pack(">HHQH", 60, 0, 0, 0))
HALF = ContentBody(CHANNEL, b"ab")
RUN = PublishRun(CHANNEL, PUBLISH.payload, [b"m"], 0, 0)
ROW = PublishRow(CHANNEL, [PUBLISH.payload, PUBLISH.payload], [b"m", b"n"], 0, 0)
ACK = AckRun(CHANNEL, [1, 1])
EVENTS = (OPEN, CLOSE, CLOSE_OK, QOS, PUBLISH, HEADER, EMPTY, HALF, RUN, ROW, ACK)
WHOLE = PublishRun(
    CHANNEL, PUBLISH.payload, [encode_message(0, b"e", b"k", b"\0\0", b"abab")], 0, 0
)

NO_METHOD = "505 UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NO_HEADER = (
    "505 UNEXPECTED_FRAME - expected content header for class 60, "
    "got non content header frame instead"
)
NO_BODY = "505 UNEXPECTED_FRAME - expected content body, got non content body frame instead"
NO_OPEN = "504 CHANNEL_ERROR - expected 'channel.open'"


def machine_after(
    *events: Event, budget: AssemblyBudget | None = None, bytes_max: int = 100
) -> ChannelMachine:
    machine = ChannelMachine(bytes_max, budget or AssemblyBudget(1 << 20))
    for event in events:
        machine.receive(event)
    return machine


def closing() -> ChannelMachine:
    machine = machine_after(OPEN)
    machine.close()
    return machine


@pytest.mark.parametrize(
    ("before", "state"),
    [
        ((), ChannelState.UNOPENED),
        ((OPEN,), ChannelState.AWAITING_METHOD),
        ((OPEN, QOS, ACK, RUN, ROW), ChannelState.AWAITING_METHOD),
        ((OPEN, PUBLISH), ChannelState.AWAITING_HEADER),
        ((OPEN, PUBLISH, EMPTY), ChannelState.AWAITING_METHOD),
        ((OPEN, PUBLISH, HEADER), ChannelState.AWAITING_BODY),
        ((OPEN, PUBLISH, HEADER, HALF), ChannelState.AWAITING_BODY),
        ((OPEN, PUBLISH, HEADER, HALF, HALF), ChannelState.AWAITING_METHOD),
        ((OPEN, CLOSE), ChannelState.UNOPENED),
    ],
)
def test_events_in_order_move_the_state(before: tuple[Event, ...], state: ChannelState) -> None:
    machine = machine_after(*before)

    assert machine.state is state
    assert machine.awaits_content == state.name.startswith(("AWAITING_H", "AWAITING_B"))


@pytest.mark.parametrize(
    ("before", "refused", "text", "ids"),
    [
        ((), (HEADER, HALF), NO_METHOD, (0, 0)),
        ((), (QOS,), NO_OPEN, (60, 10)),
        ((), (CLOSE,), NO_OPEN, (20, 40)),
        ((), (PUBLISH, RUN, ROW), NO_OPEN, (60, 40)),
        ((), (ACK,), NO_OPEN, (60, 80)),
        ((OPEN,), (HEADER, HALF), NO_METHOD, (0, 0)),
        ((OPEN, PUBLISH), (QOS, PUBLISH, CLOSE, RUN, ROW, ACK, HALF), NO_HEADER, (60, 40)),
        ((OPEN, PUBLISH, HEADER), (QOS, PUBLISH, CLOSE, RUN, ROW, ACK, HEADER), NO_BODY, (60, 40)),
        ((OPEN, CLOSE), (QOS,), NO_OPEN, (60, 10)),
    ],
)
def test_an_event_that_may_not_come_is_refused_in_rabbitmq_s_words(
    before: tuple[Event, ...], refused: tuple[Event, ...], text: str, ids: tuple[int, int]
) -> None:
    for event in refused:
        with pytest.raises(AmqpError) as caught:
            machine_after(*before, event)
        assert (str(caught.value), (caught.value.class_id, caught.value.method_id)) == (text, ids)


def test_what_changes_nothing_is_handed_on() -> None:
    machine = machine_after(OPEN)

    assert [machine.receive(each) for each in (QOS, ACK, RUN, ROW)] == [QOS, ACK, RUN, ROW]
    # An open channel that is opened, and a close-ok without a close, are the broker's to refuse.
    assert [machine.receive(each) for each in (OPEN, CLOSE_OK)] == [OPEN, CLOSE_OK]


def test_content_in_pieces_leaves_as_one_whole_publish() -> None:
    budget = AssemblyBudget(1 << 20)
    machine = machine_after(OPEN, budget=budget)

    assert machine.receive(PUBLISH) == PUBLISH, "its arguments are checked before the content"
    assert [machine.receive(each) for each in (HEADER, HALF)] == [None, None]
    assert budget.held_bytes == 2 * len(HALF.payload), "its first half reserves room for the other"
    assert machine.receive(HALF) == WHOLE
    assert budget.held_bytes == 0


def test_a_whole_publish_has_its_flags_as_the_scanner_reports_them() -> None:
    properties = pack(">HI", 0x2000 | 0x0100, 0) + b"\x019"
    header = ContentHeader(CHANNEL, pack(">HHQ", 60, 0, 0) + properties)

    whole = machine_after(OPEN, PUBLISH).receive(header)

    assert isinstance(whole, PublishRun)
    assert whole.checked_flags == 0x0100
    assert whole.shared_flags == whole.messages[0][0] & ~HAS_HEADERS != whole.messages[0][0]


def test_a_closing_channel_ignores_everything_before_close_ok() -> None:
    machine = closing()

    ignored = [each for each in EVENTS if each not in (CLOSE, CLOSE_OK)]
    ignored += [MethodFrame(CHANNEL, b"\xff\xff\xff\xff"), ContentHeader(CHANNEL, b"malformed")]
    assert [machine.receive(each) for each in ignored] == [None] * len(ignored)
    assert machine.receive(CLOSE) == CLOSE, "a close that crosses ours is answered"
    assert machine.state.name == "CLOSING"
    assert machine.receive(CLOSE_OK) is None
    assert machine.state.name == "UNOPENED"
    assert machine.receive(OPEN) == OPEN


def test_a_close_in_the_middle_of_a_content_frees_it() -> None:
    budget = AssemblyBudget(1 << 20)
    machine = machine_after(OPEN, PUBLISH, HEADER, HALF, budget=budget)

    machine.close()

    assert (budget.held_bytes, machine.awaits_content) == (0, False)


def test_a_method_that_cannot_be_decoded_is_another_error_than_an_unexpected_one() -> None:
    cut_short = MethodFrame(CHANNEL, ChannelOpen.identity + b"\x05")

    with pytest.raises(FieldSyntaxError):
        machine_after(cut_short)
    with pytest.raises(FieldSyntaxError):
        machine_after(OPEN, MethodFrame(CHANNEL, BasicPublish.identity))
    assert machine_after(OPEN).receive(cut_short) == cut_short, "the session decodes it"


def test_content_that_is_too_large_closes_the_channel_and_that_which_does_not_fit_more() -> None:
    with pytest.raises(PreconditionFailed, match="larger than configured max size 3"):
        machine_after(OPEN, PUBLISH, HEADER, bytes_max=3)
    with pytest.raises(FrameError, match="exceeds remaining content size"):
        machine_after(OPEN, PUBLISH, HEADER, HALF, ContentBody(CHANNEL, b"abc"))


@given(events=st.lists(st.sampled_from(EVENTS), max_size=30), closes=st.sets(st.integers(0, 29)))
def test_in_any_order_content_is_whole_or_refused(events: list[Event], closes: set[int]) -> None:
    """A connection ends at the first error, so what comes behind it does not count."""
    budget = AssemblyBudget(1 << 20)
    machine = machine_after(OPEN, budget=budget)
    published = 0
    for at, event in enumerate(events):
        if at in closes and machine.state is not ChannelState.UNOPENED:
            machine.close()
        try:
            due = machine.receive(event)
        except AmqpError:
            break
        assert machine.awaits_content or budget.held_bytes == 0
        assert due is None or due is event or isinstance(due, PublishRun)
        published += isinstance(due, PublishRun) and due is not event
    assert published <= sum(each in (EMPTY, HALF) for each in events)
    machine.close()

    assert budget.held_bytes == 0
