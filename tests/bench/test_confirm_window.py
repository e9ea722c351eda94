"""Counting confirms, written by an independent codec."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import base, commands, frame

from bench.confirm_window import ConfirmWindow
from bench.errors import UnexpectedFrameError

ANSWERS = st.lists(st.tuples(st.booleans(), st.integers(1, 30), st.booleans()), max_size=30)


def ack(tag: int, multiple: bool = False) -> bytes:
    return bytes(frame.marshal(commands.Basic.Ack(tag, multiple), 1))


def nack(tag: int, multiple: bool = False) -> bytes:
    return bytes(frame.marshal(commands.Basic.Nack(tag, multiple, False), 1))


def test_a_multiple_ack_confirms_all_up_to_its_tag() -> None:
    window = ConfirmWindow()

    window.feed(ack(10, multiple=True))

    assert (window.confirmed, window.nacked, window.settled) == (10, 0, 10)


def test_acks_out_of_order_count_once_each() -> None:
    window = ConfirmWindow()

    window.feed(ack(3) + ack(1) + ack(3) + ack(2, multiple=True) + ack(1))

    assert window.confirmed == 3


def test_a_multiple_ack_does_not_confirm_what_was_nacked_before() -> None:
    window = ConfirmWindow()

    window.feed(nack(2) + ack(4, multiple=True))

    assert (window.confirmed, window.nacked) == (3, 1)


@given(ANSWERS, st.data())
def test_each_publish_counts_for_its_first_answer_however_the_stream_is_cut(
    answers: list[tuple[bool, int, bool]], data: st.DataObject
) -> None:
    first_answers: dict[int, bool] = {}
    stream = b""
    for is_ack, tag, multiple in answers:
        stream += ack(tag, multiple) if is_ack else nack(tag, multiple)
        for each in range(1 if multiple else tag, tag + 1):
            first_answers.setdefault(each, is_ack)
    window = ConfirmWindow()
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        window.feed(stream[:size])
        stream = stream[size:]

    assert window.confirmed == sum(first_answers.values())
    assert window.settled == len(first_answers)


@pytest.mark.parametrize(
    "other",
    [
        commands.Channel.Close(404, "NOT_FOUND - no queue", 60, 40),
        commands.Basic.Return(312, "NO_ROUTE", "", "bench"),
        commands.Basic.CancelOk("a consumer tag"),
    ],
)
def test_anything_but_a_confirm_is_refused(other: base.Frame) -> None:
    window = ConfirmWindow()

    with pytest.raises(UnexpectedFrameError, match="expected a confirm"):
        window.feed(ack(1) + bytes(frame.marshal(other, 1)))
