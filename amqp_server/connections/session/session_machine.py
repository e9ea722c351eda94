"""State machine of a session, without a socket: its stage, and the work that is under way.

Two things happen side by side. The *stage* is how far the session is in its life:

    HANDSHAKE --opened--> OPEN --release--> RELEASING --released--> RELEASED
        |                   |                   ^                      |
        +-----release-------|-------------------+------(release)-------+

    The same four after the connection was lost: LOST_HANDSHAKE, LOST_OPEN, LOST_RELEASING, GONE.

*Releasing* ends the channels and requeues what they hold; it takes many steps. Both sides may begin
to close, and the connection may be lost, before it ends. It begins again, with little to do, when
the client confirms our close, or when a released connection is lost.

The *work* is what the session takes steps of between two events of its client:

    IDLE --begin--> HANDLING --wait--> BLOCKED     HANDLING: of a method or a publish
      ^                |   ^              |        BLOCKED: on a commit or a back end
      |<-----end-------+   +--wait ended--+
      |<-----end------- HURRYING                   HURRYING: as HANDLING, but it cannot wait
      |<-----end------- CLOSING_CHANNEL            CLOSING_CHANNEL: an error has closed one

Every work may be under way in every stage, but one: CLOSING_CHANNEL needs an open session. What is
left of it when the session ends is handed over to the release.

The tables below have the next state of each state and event. An event without an entry cannot come.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Stage(StrEnum):
    """Stage of a session's life."""

    HANDSHAKE = "handshake"
    OPEN = "open"
    RELEASING = "releasing"
    RELEASED = "released"
    LOST_HANDSHAKE = "lost in the handshake"
    LOST_OPEN = "lost while open"
    LOST_RELEASING = "lost and releasing"
    GONE = "gone"


class StageEvent(StrEnum):
    """Event that changes the stage."""

    OPENED = "the virtual host is open"
    RELEASE = "the end has begun"
    RELEASED = "everything is released"
    LOST = "the connection is lost"


class Work(StrEnum):
    """Work that a session takes steps of."""

    IDLE = "idle"
    HANDLING = "handling an event"
    HURRYING = "handling an event, unable to wait"
    BLOCKED = "blocked"
    CLOSING_CHANNEL = "closing a channel"


class WorkEvent(StrEnum):
    """Event that changes the work."""

    BEGIN = "an event takes steps"
    BEGIN_CLOSE = "the close of a channel takes steps"
    HURRY = "no step may wait any more"
    WAIT = "a step has to wait"
    WAIT_ENDED = "the wait has ended"
    END = "all steps are taken, or one has failed"
    HAND_OVER = "the release takes the steps that are left"


STAGES: Final[dict[Stage, dict[StageEvent, Stage]]] = {
    Stage.HANDSHAKE: {
        StageEvent.OPENED: Stage.OPEN,
        StageEvent.RELEASE: Stage.RELEASING,
        StageEvent.LOST: Stage.LOST_HANDSHAKE,
    },
    Stage.OPEN: {
        StageEvent.RELEASE: Stage.RELEASING,
        StageEvent.LOST: Stage.LOST_OPEN,
    },
    Stage.RELEASING: {
        StageEvent.RELEASE: Stage.RELEASING,
        StageEvent.RELEASED: Stage.RELEASED,
        StageEvent.LOST: Stage.LOST_RELEASING,
    },
    Stage.RELEASED: {
        StageEvent.RELEASE: Stage.RELEASING,
        StageEvent.LOST: Stage.GONE,
    },
    # Events that had arrived are still handled; the release comes after them.
    Stage.LOST_HANDSHAKE: {
        StageEvent.RELEASE: Stage.LOST_RELEASING,
    },
    Stage.LOST_OPEN: {
        StageEvent.RELEASE: Stage.LOST_RELEASING,
    },
    Stage.LOST_RELEASING: {
        StageEvent.RELEASE: Stage.LOST_RELEASING,
        StageEvent.RELEASED: Stage.GONE,
    },
    # A connection that is lost after its close is released once more.
    Stage.GONE: {
        StageEvent.RELEASE: Stage.LOST_RELEASING,
    },
}
"""Stage that follows an event in a stage."""

WORKS: Final[dict[Work, dict[WorkEvent, Work]]] = {
    Work.IDLE: {
        WorkEvent.BEGIN: Work.HANDLING,
        WorkEvent.BEGIN_CLOSE: Work.CLOSING_CHANNEL,
        WorkEvent.HURRY: Work.IDLE,
        # A step that waited may have been hurried, and be over when the wait ends.
        WorkEvent.WAIT_ENDED: Work.IDLE,
    },
    Work.HANDLING: {
        WorkEvent.HURRY: Work.HURRYING,
        WorkEvent.WAIT: Work.BLOCKED,
        WorkEvent.WAIT_ENDED: Work.HANDLING,
        WorkEvent.END: Work.IDLE,
    },
    # It does not last: all steps are taken before the client's next event, or another client's.
    Work.HURRYING: {
        WorkEvent.WAIT: Work.HURRYING,
        WorkEvent.WAIT_ENDED: Work.HURRYING,
        WorkEvent.END: Work.IDLE,
    },
    Work.BLOCKED: {
        WorkEvent.HURRY: Work.HURRYING,
        WorkEvent.WAIT_ENDED: Work.HANDLING,
    },
    Work.CLOSING_CHANNEL: {
        WorkEvent.HURRY: Work.CLOSING_CHANNEL,
        WorkEvent.WAIT_ENDED: Work.CLOSING_CHANNEL,
        WorkEvent.END: Work.IDLE,
        WorkEvent.HAND_OVER: Work.IDLE,
    },
}
"""Work that follows an event in a work."""

LOST: Final = frozenset({Stage.LOST_HANDSHAKE, Stage.LOST_OPEN, Stage.LOST_RELEASING, Stage.GONE})
"""Stages of a session whose connection is lost."""
COUNTED: Final = frozenset({Stage.OPEN, Stage.LOST_OPEN})
"""Stages in which the session counts towards the limits of its user and virtual host."""
RELEASING: Final = frozenset({Stage.RELEASING, Stage.LOST_RELEASING})
"""Stages in which steps of the release are left."""


class SessionMachine:
    """The stage of one session, and the work that is under way.

    Attributes:
        stage: How far the session is.
        work: Work that it takes steps of.
    """

    __slots__ = ("stage", "work")

    def __init__(self) -> None:
        self.stage = Stage.HANDSHAKE
        self.work = Work.IDLE

    def advance(self, event: StageEvent) -> Stage:
        """Change the stage; return the one before."""
        before = self.stage
        self.stage = STAGES[before][event]
        return before

    def change_work(self, event: WorkEvent) -> Work:
        """Change the work; return the one that follows."""
        self.work = following = WORKS[self.work][event]
        return following
