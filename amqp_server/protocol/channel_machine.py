"""State machine of a channel, without a socket: which event may come next.

    UNOPENED --open--> AWAITING_METHOD --basic.publish--> AWAITING_HEADER --header--> AWAITING_BODY
        ^                 |   ^     ^                            |                       |   ^  |
        +-----close-------+   |     +--------(empty body)--------+                       |   +--+
        |                     +-----------------------(last body)------------------------+   body
        +--close-ok-- CLOSING <--(we sent channel.close, in any state but UNOPENED)

The table below has the next state of each state and event, or the error that closes the connection.
A publish whose content comes in frames of its own leaves the machine as a `PublishRun` of one
message, so that the broker sees whole publishes only.

Source: AMQP 0-9-1 specification, sections 1.5.2 (channel) and 4.2.6 (content); texts as in
RabbitMQ, rabbit_reader and rabbit_command_assembler.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from amqp_server.protocol.content_assembly import (
    ContentAssembly,
    body_expected,
    header_expected,
)
from amqp_server.protocol.errors import ChannelError, UnexpectedFrame
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
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    Method,
    decode_method,
)
from amqp_server.protocol.unexpected_frames import failed_method

if TYPE_CHECKING:
    from amqp_server.protocol.content_assembly import AssemblyBudget
    from amqp_server.protocol.errors import AmqpError
    from amqp_server.protocol.framing import Event

_CONTENT_FRAMES = (ContentHeader, ContentBody)
_Refusal = Callable[["Event"], "AmqpError"]


class ChannelState(Enum):
    """State of a channel, named for what the client may send next."""

    UNOPENED = auto()
    AWAITING_METHOD = auto()
    AWAITING_HEADER = auto()
    AWAITING_BODY = auto()
    CLOSING = auto()


def _open_expected(event: Event) -> AmqpError:
    return ChannelError("expected 'channel.open'", *failed_method(event))


def _method_expected(_event: Event) -> AmqpError:
    return UnexpectedFrame("expected method frame, got non method frame instead")


def _header_expected(_event: Event) -> AmqpError:
    return header_expected()


def _body_expected(_event: Event) -> AmqpError:
    return body_expected()


_TABLE: Final[dict[ChannelState, dict[type[object], ChannelState | _Refusal]]] = {
    ChannelState.UNOPENED: {
        ChannelOpen: ChannelState.AWAITING_METHOD,
        MethodFrame: _open_expected,
        PublishRun: _open_expected,
        PublishRow: _open_expected,
        AckRun: _open_expected,
        ContentHeader: _method_expected,
        ContentBody: _method_expected,
    },
    ChannelState.AWAITING_METHOD: {
        BasicPublish: ChannelState.AWAITING_HEADER,
        ChannelClose: ChannelState.UNOPENED,
        MethodFrame: ChannelState.AWAITING_METHOD,
        PublishRun: ChannelState.AWAITING_METHOD,
        PublishRow: ChannelState.AWAITING_METHOD,
        AckRun: ChannelState.AWAITING_METHOD,
        ContentHeader: _method_expected,
        ContentBody: _method_expected,
    },
    ChannelState.AWAITING_HEADER: {
        MethodFrame: _header_expected,
        PublishRun: _header_expected,
        PublishRow: _header_expected,
        AckRun: _header_expected,
        ContentHeader: ChannelState.AWAITING_BODY,
        ContentBody: _header_expected,
    },
    ChannelState.AWAITING_BODY: {
        MethodFrame: _body_expected,
        PublishRun: _body_expected,
        PublishRow: _body_expected,
        AckRun: _body_expected,
        ContentHeader: _body_expected,
        ContentBody: ChannelState.AWAITING_BODY,
    },
    # As AMQP requires, everything before close-ok is ignored, without decoding it.
    ChannelState.CLOSING: {
        ChannelCloseOk: ChannelState.UNOPENED,
        MethodFrame: ChannelState.CLOSING,
        PublishRun: ChannelState.CLOSING,
        PublishRow: ChannelState.CLOSING,
        AckRun: ChannelState.CLOSING,
        ContentHeader: ChannelState.CLOSING,
        ContentBody: ChannelState.CLOSING,
    },
}
"""State that follows an event in a state. A method without an entry of its own is a `MethodFrame`.

When the content is complete, AWAITING_METHOD follows its last frame instead of AWAITING_BODY.
"""


class _Row(dict[type[object] | bytes, "_Row | _Refusal"]):
    """A row of the table whose entries are rows: following one needs no hash of a state.

    Attributes:
        state: The state whose row it is.
    """

    def __init__(self, state: ChannelState) -> None:
        super().__init__()
        self.state = state


def _linked_rows() -> dict[ChannelState, _Row]:
    """Return the table with rows for states, and with a method's identity for its class."""
    rows = {state: _Row(state) for state in _TABLE}
    for state, entries in _TABLE.items():
        for key, following in entries.items():
            found = key.identity if issubclass(key, Method) else key
            if isinstance(following, ChannelState):
                rows[state][found] = rows[following]
            else:
                rows[state][found] = following
    return rows


_ROWS: Final = _linked_rows()
_UNOPENED: Final = _ROWS[ChannelState.UNOPENED]
_AWAITING_METHOD: Final = _ROWS[ChannelState.AWAITING_METHOD]
_AWAITING_HEADER: Final = _ROWS[ChannelState.AWAITING_HEADER]
_CLOSING: Final = _ROWS[ChannelState.CLOSING]


class ChannelMachine:
    """State of one channel: the frames that may come next, and the content that is incomplete.

    Args:
        message_bytes_max: Largest body that is accepted, in bytes.
        budget: Limit of incomplete bodies; all connections share it.
        owner: Connection whose part of the budget the content uses.
    """

    def __init__(
        self, message_bytes_max: int, budget: AssemblyBudget, owner: object = None
    ) -> None:
        self._row = _UNOPENED
        self._message_bytes_max = message_bytes_max
        self._budget = budget
        self._owner = owner
        self._content: ContentAssembly | None = None

    @property
    def state(self) -> ChannelState:
        """State of the channel: it says what the client may send next."""
        return self._row.state

    @property
    def awaits_content(self) -> bool:
        """Whether the content of a publish has not arrived completely."""
        return self._content is not None

    def receive(self, event: Event) -> Event | None:
        """Take the next event of the channel; return what is to be handled now.

        That is the event itself; or the whole publish that it completes; or None, because the
        content is still incomplete or the channel is closing. A `basic.publish` whose content
        follows is returned too: its arguments can be wrong. A client's close of a closing channel
        is returned, because it must be answered.

        Args:
            event: Not a `HeartbeatFrame` or `BrokenFrame`: they belong to the connection.

        Raises:
            HardError: The event may not come now, or cannot be decoded.
            PreconditionFailed: The content is too large. The caller closes the channel.
        """
        row = self._row
        kind = type(event)
        following = row[kind]
        if kind is MethodFrame:
            following = row.get(event.identity, following)
        if following is row is _AWAITING_METHOD:
            return event
        return self._advance(event, following)

    def _advance(self, event: Event, following: _Row | _Refusal) -> Event | None:
        """Take an event that changes the state, or that is refused or ignored."""
        if self._row is _UNOPENED and isinstance(event, MethodFrame):
            # A method that cannot be decoded is another error than an unexpected one.
            decode_method(event.payload)
        if not isinstance(following, _Row):
            raise following(event)
        if self._row is _CLOSING:
            self._row = following
            return event if event.identity == ChannelClose.identity else None
        if isinstance(event, _CONTENT_FRAMES):
            return self._take_content(event, following)
        if following is _AWAITING_HEADER:
            assert isinstance(event, MethodFrame), "the table has a method before content"
            self._begin_content(event)
        self._row = following
        return event

    def _begin_content(self, event: MethodFrame) -> None:
        method = decode_method(event.payload)
        assert isinstance(method, BasicPublish), "clients send content with basic.publish only"
        self._content = ContentAssembly(
            method, event.payload, self._message_bytes_max, self._budget, self._owner
        )

    def _take_content(
        self, event: ContentHeader | ContentBody, following: _Row
    ) -> PublishRun | None:
        content = self._content
        assert content is not None, "the table lets content come behind basic.publish only"
        if isinstance(event, ContentHeader):
            is_whole = content.take_header(event.payload)
        else:
            is_whole = content.take_body(event.payload)
        if not is_whole:
            self._row = following
            return None
        self._drop_content()
        self._row = _AWAITING_METHOD
        return content.as_run(event.channel)

    def _drop_content(self) -> None:
        if self._content is not None:
            self._content.release()
            self._content = None

    def close(self) -> None:
        """Discard incomplete content; ignore all events until the client confirms the close."""
        self._drop_content()
        self._row = _CLOSING
