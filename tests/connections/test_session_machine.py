"""What may follow on what in a session's life, and in the work that it takes steps of."""

from __future__ import annotations

import pytest

from amqp_server.connections.session.session_machine import (
    COUNTED,
    LOST,
    RELEASING,
    STAGES,
    WORKS,
    SessionMachine,
    Stage,
    StageEvent,
    Work,
    WorkEvent,
)

OPENED, RELEASE, RELEASED, LOSS = (
    StageEvent.OPENED,
    StageEvent.RELEASE,
    StageEvent.RELEASED,
    StageEvent.LOST,
)
BEGIN, WAIT, WAIT_ENDED, END = (
    WorkEvent.BEGIN,
    WorkEvent.WAIT,
    WorkEvent.WAIT_ENDED,
    WorkEvent.END,
)


def machine_after(*events: StageEvent | WorkEvent) -> SessionMachine:
    machine = SessionMachine()
    for event in events:
        if isinstance(event, StageEvent):
            machine.advance(event)
        else:
            machine.change_work(event)
    return machine


@pytest.mark.parametrize(
    ("events", "stage"),
    [
        ((), Stage.HANDSHAKE),
        ((OPENED,), Stage.OPEN),
        ((OPENED, RELEASE), Stage.RELEASING),
        ((OPENED, RELEASE, RELEASE), Stage.RELEASING),
        ((OPENED, RELEASE, RELEASED), Stage.RELEASED),
        ((OPENED, RELEASE, RELEASED, RELEASE), Stage.RELEASING),
        ((OPENED, RELEASE, RELEASED, LOSS), Stage.GONE),
        ((OPENED, RELEASE, RELEASED, LOSS, RELEASE, RELEASED), Stage.GONE),
        ((OPENED, RELEASE, LOSS), Stage.LOST_RELEASING),
        ((OPENED, RELEASE, LOSS, RELEASE, RELEASED), Stage.GONE),
        ((OPENED, LOSS), Stage.LOST_OPEN),
        ((OPENED, LOSS, RELEASE), Stage.LOST_RELEASING),
        ((OPENED, LOSS, RELEASE, RELEASED), Stage.GONE),
        ((RELEASE,), Stage.RELEASING),
        ((LOSS,), Stage.LOST_HANDSHAKE),
        ((LOSS, RELEASE), Stage.LOST_RELEASING),
    ],
)
def test_a_session_goes_through_its_stages(events: tuple[StageEvent, ...], stage: Stage) -> None:
    assert machine_after(*events).stage is stage


@pytest.mark.parametrize(
    ("events", "refused"),
    [
        ((), RELEASED),
        ((OPENED,), OPENED),
        ((OPENED,), RELEASED),
        ((OPENED, RELEASE), OPENED),
        ((OPENED, RELEASE, RELEASED), RELEASED),
        ((LOSS,), OPENED),
        ((OPENED, LOSS), LOSS),
        ((OPENED, LOSS, RELEASE), LOSS),
        ((OPENED, LOSS, RELEASE, RELEASED), RELEASED),
    ],
)
def test_a_stage_that_cannot_follow_is_an_error(
    events: tuple[StageEvent, ...], refused: StageEvent
) -> None:
    machine = machine_after(*events)
    before = machine.stage

    with pytest.raises(KeyError):
        machine.advance(refused)
    assert machine.stage is before


def test_the_stage_before_is_returned() -> None:
    machine = machine_after(OPENED)

    assert machine.advance(RELEASE) is Stage.OPEN
    assert machine.advance(RELEASE) is Stage.RELEASING


@pytest.mark.parametrize(
    ("events", "work"),
    [
        ((), Work.IDLE),
        ((BEGIN,), Work.HANDLING),
        ((BEGIN, END), Work.IDLE),
        ((BEGIN, WAIT), Work.BLOCKED),
        ((BEGIN, WAIT, WAIT_ENDED), Work.HANDLING),
        ((BEGIN, WAIT, WAIT_ENDED, END), Work.IDLE),
        ((BEGIN, WorkEvent.HURRY), Work.HURRYING),
        ((BEGIN, WAIT, WorkEvent.HURRY), Work.HURRYING),
        ((BEGIN, WorkEvent.HURRY, WAIT), Work.HURRYING),
        ((BEGIN, WAIT, WorkEvent.HURRY, WAIT, WAIT_ENDED, END), Work.IDLE),
        ((WorkEvent.HURRY,), Work.IDLE),
        ((WorkEvent.BEGIN_CLOSE,), Work.CLOSING_CHANNEL),
        ((WorkEvent.BEGIN_CLOSE, WorkEvent.HURRY), Work.CLOSING_CHANNEL),
        ((WorkEvent.BEGIN_CLOSE, END), Work.IDLE),
        ((WorkEvent.BEGIN_CLOSE, WorkEvent.HAND_OVER), Work.IDLE),
        # The answer that a step waited for comes when the step has been hurried.
        ((WAIT_ENDED,), Work.IDLE),
        ((BEGIN, WAIT_ENDED), Work.HANDLING),
        ((WorkEvent.BEGIN_CLOSE, WAIT_ENDED), Work.CLOSING_CHANNEL),
    ],
)
def test_work_begins_waits_and_ends(events: tuple[WorkEvent, ...], work: Work) -> None:
    machine = machine_after(*events)

    assert machine.work is work
    assert machine.stage is Stage.HANDSHAKE


@pytest.mark.parametrize(
    ("events", "refused"),
    [
        # Only a step waits, and one piece of work begins after the other.
        ((), (WAIT, END, WorkEvent.HAND_OVER)),
        ((BEGIN,), (BEGIN, WorkEvent.BEGIN_CLOSE, WorkEvent.HAND_OVER)),
        ((BEGIN, WAIT), (BEGIN, WorkEvent.BEGIN_CLOSE, WAIT, END, WorkEvent.HAND_OVER)),
        ((BEGIN, WorkEvent.HURRY), (BEGIN, WorkEvent.BEGIN_CLOSE, WorkEvent.HAND_OVER)),
        ((WorkEvent.BEGIN_CLOSE,), (BEGIN, WorkEvent.BEGIN_CLOSE, WAIT)),
    ],
)
def test_work_that_cannot_follow_is_an_error(
    events: tuple[WorkEvent, ...], refused: tuple[WorkEvent, ...]
) -> None:
    for event in refused:
        machine = machine_after(*events)
        with pytest.raises(KeyError):
            machine.change_work(event)


def test_every_state_has_its_entries_and_can_be_reached() -> None:
    assert set(STAGES) == set(Stage)
    assert set(WORKS) == set(Work)
    reached = {following for entries in STAGES.values() for following in entries.values()}
    assert reached == set(Stage) - {Stage.HANDSHAKE}
    done = {following for entries in WORKS.values() for following in entries.values()}
    assert done == set(Work)


def test_a_lost_connection_is_never_found_again() -> None:
    """A session that is lost is released once more, and counts for no limit afterwards."""
    for stage in LOST:
        assert set(STAGES[stage].values()) <= LOST
        assert STAGES[stage][RELEASE] is Stage.LOST_RELEASING
    for stage in Stage:
        assert (RELEASED in STAGES[stage]) == (stage in RELEASING)
        assert STAGES[stage][RELEASE] not in COUNTED
        assert (LOSS in STAGES[stage]) == (stage not in LOST)
