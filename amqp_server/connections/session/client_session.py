"""One client's session: dispatches frames to channels, and turns errors into closes.

The session handles events in the order of arrival. While a handler waits for the disk, the session
handles only events that may overlap with it (`reply_queue`), and then pauses reading.
Soft errors close a channel, hard errors close the connection, as AMQP requires.

The loop is `_handle_in_order`: what comes next, the steps that it takes, and whether others go
first. A table in `session_machine` has the events that each state allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final

from amqp_server.audit.actor import Actor
from amqp_server.broker.channel import Channel
from amqp_server.broker.job import Job
from amqp_server.broker.rights import NO_RIGHTS, AnswerAwaited, when_answered
from amqp_server.connections.connection_attributes import (
    closed_attributes,
)
from amqp_server.connections.parked_publishes import ParkedPublishes
from amqp_server.connections.reply_queue import ReplyQueue
from amqp_server.connections.session.session_channels import SessionChannels
from amqp_server.connections.session.session_closing import SessionClosing
from amqp_server.connections.session.session_input import SessionInput
from amqp_server.connections.session.session_login import SessionLogin
from amqp_server.connections.session.session_machine import (
    LOST,
    SessionMachine,
    StageEvent,
    Work,
    WorkEvent,
)
from amqp_server.connections.session.session_methods import SEE_LOG, SessionMethods
from amqp_server.protocol.close_methods import close_error_for
from amqp_server.protocol.connection_machine import ConnectionMachine, ConnectionState
from amqp_server.protocol.errors import (
    ConnectionForced,
    HardError,
    InternalError,
    SoftError,
)
from amqp_server.protocol.framing import (
    AckRun,
    MethodFrame,
    PublishRow,
    PublishRun,
)
from amqp_server.protocol.methods import (
    method_frame,
    method_name,
)
from amqp_server.protocol.unexpected_publish import unexpected_publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from amqp_server.base.time_slice import TimeSlice
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.connections.authentication import PeerAuthenticator
    from amqp_server.connections.client_socket import ClientSocket
    from amqp_server.connections.server_context import ServerContext
    from amqp_server.protocol.framing import Event

logger = logging.getLogger("amqp_server.client_session")


class _Handled(Enum):
    """How much of what the client has sent is handled."""

    ALL = auto()
    UNTIL_WAIT = auto()
    """The next event has to wait for a reply, or for the client to read."""
    UNTIL_CUT = auto()
    """The time is up, or a step waits; the rest is handled in a later turn."""


_IDLE: Final = Work.IDLE
_BLOCKED: Final = Work.BLOCKED
"""Asked for each event, and looking up a member of an `Enum` is slow."""
_ALL: Final = _Handled.ALL
_UNTIL_WAIT: Final = _Handled.UNTIL_WAIT
_UNTIL_CUT: Final = _Handled.UNTIL_CUT


class ClientSession:
    """The state of one client after its protocol header; implements the broker's `Client`.

    Args:
        server: Server whose broker the client uses.
        connection: Connection that sends and receives the session's octets.
        machine: Handshake whose greeting (connection.start) this session sends.
        authenticator: Decides in it about the login.

    Attributes:
        write: Sends frames.
    """

    def __init__(
        self,
        server: ServerContext,
        connection: ClientSocket,
        machine: ConnectionMachine,
        authenticator: PeerAuthenticator,
    ) -> None:
        self.name = connection.name
        self.user = ""
        self.actor = Actor("", self.name.partition(" -> ")[0])
        self.frame_max = server.config.limits.frame_bytes_min
        self.notifies_cancel = False
        self.qos_reaches_consumers = False
        # Before the virtual host is open, there is no channel that could ask.
        self.rights = NO_RIGHTS
        self._channels = SessionChannels(server)
        self.parked = ParkedPublishes(
            server.config.limits.parked_bytes_per_connection_max, server.parked_budget
        )
        self._server = server
        self._connection = connection
        self.write = connection.write
        self._machine = machine
        limits = server.config.limits
        self._input = SessionInput(
            connection,
            min(limits.login_bytes_max, server.config.frame_bytes_max),
            server.config.max_message_bytes,
        )
        self._states = SessionMachine()
        # The event that is handled now, and the steps that are left of the work.
        self._event: Event | None = None
        # Channel and method of the one before, for the log of stalls.
        self._last_request: tuple[int, bytes] | None = None
        self._steps: Iterator[None] | None = None
        self._closing = SessionClosing(
            server, connection, machine, self._states, self._channels, self._input
        )
        self._replies = ReplyQueue()
        self._methods = SessionMethods(self._replies, self._closing)
        self._login = SessionLogin(
            server,
            connection,
            machine,
            authenticator,
            self._states,
            self._input,
            self._replies,
            self._closing,
        )
        self._turn = server.broker.turn
        self._message_sizes = server.broker.message_sizes
        self.task_queue = self._turn.new_task_queue()
        self.on_alarms_changed()
        self.write(method_frame(0, machine.greeting))

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done and neither side has begun to close."""
        return self._machine.state is ConnectionState.OPEN

    @property
    def handshake(self) -> ConnectionMachine:
        """The handshake, which knows what was negotiated."""
        return self._machine

    @property
    def channels(self) -> dict[int, Channel]:
        """The open channels, by number."""
        return self._channels.opened

    @property
    def virtual_host(self) -> VirtualHost | None:
        """Virtual host that was opened, also after the close; None before."""
        return self._login.virtual_host

    @property
    def vhost(self) -> str:
        """Name of the open virtual host; empty before it is opened and after the close."""
        return self._machine.vhost if self.is_open else ""

    @property
    def client_name(self) -> str:
        """Name that the client has given its connection; empty if it gave none."""
        return self._machine.client_name

    @property
    def waiting_reply_bytes(self) -> int:
        """Bytes of direct replies that wait until the client reads. Any thread may ask."""
        consumers = [channel.reply_consumer for channel in tuple(self.channels.values())]
        return sum(each.waiting_bytes for each in consumers if each is not None)

    @property
    def waiting_event_bytes(self) -> int:
        """Bytes that were scanned and wait to be handled; about. Any thread may ask.

        Those of the last scan count until all of its events are handled.
        """
        return self._input.event_bytes if self._is_busy else 0

    # amqp_server.broker.client.Client

    @property
    def is_writable(self) -> bool:
        """Whether the write buffer has room for deliveries."""
        return self._connection.is_writable

    def reply_in_order(self, send: Callable[[], None]) -> None:
        """Send a method's reply after the replies to all methods before it."""
        self._replies.put(send)

    def pause_reading(self, reason: object) -> None:
        """Stop reading until every reason is lifted."""
        self._connection.pause_reading(reason)

    def resume_reading(self, reason: object) -> None:
        """Lift one reason for not reading."""
        self._connection.resume_reading(reason)

    def wait_for_commit(self) -> bool:
        """Handle nothing more until a commit has ended; return False if that cannot wait."""
        return self._states.change_work(WorkEvent.WAIT) is _BLOCKED

    def on_wait_ended(self) -> None:
        """Go on after `wait_for_commit` or `wait_for_answer`."""
        self._states.change_work(WorkEvent.WAIT_ENDED)
        self._turn.mark(self, self.task_queue)

    def wait_for_answer(self, answer: asyncio.Future[None]) -> bool:
        """Handle nothing more until a back end has answered; return False if that cannot wait."""
        is_blocked = self.wait_for_commit()
        if is_blocked:
            answer.add_done_callback(lambda _: self.on_wait_ended())
        return is_blocked

    # For the connection

    def receive(self, buffer: bytearray, at: int, end: int) -> int:
        """Handle what was read; return the position of the octets that must come again.

        The session keeps no reference to the buffer.
        """
        self._input.begin(buffer, at, end)
        self._turn.run_now(self, self.task_queue)
        self._input.buffer = None
        at = self._input.at
        if at == end:
            # All of it is scanned.
            return end
        if self._is_busy:
            self._input.pause_while(is_busy=True)
            return at
        return end if self._handle_unexpected(buffer, at, end) else at

    def _handle_unexpected(self, octets: bytes | bytearray, at: int, end: int) -> bool:
        """Handle a publish that is wrong before its content arrives; return whether there was one.

        Every event before it must be handled.
        """
        publish = unexpected_publish(octets, at, end, self._channels.machines)
        if publish is None:
            return False
        self._input.events.append(publish)
        self.resume_handling()
        return True

    # amqp_server.connections.parked_publishes.Publisher

    def capability(self, name: str) -> bool:
        """Return whether the client has declared a capability."""
        return self._machine.capability(name)

    def awaits_content(self, number: int) -> bool:
        """Return whether the content of a publish is incomplete on a channel."""
        return self._channels.awaits_content(number)

    def handle_again(self, events: Iterable[Event]) -> None:
        """Handle events, in this order, before all other waiting ones."""
        self._input.put_back(events, self.waiting_event_bytes)
        self.resume_handling()

    def wait_for_events(self) -> None:
        """Do not read the client before the events that wait are handled, if there are any."""
        if self._is_busy:
            self._input.pause()

    def resume_handling(self) -> None:
        """Handle the events that wait, in the next turn: a reply is sent, or there is room."""
        if self._is_busy:
            self._turn.mark(self, self.task_queue)

    def wake_consumers(self) -> None:
        """Resume deliveries, a channel in each step: the write buffer has room again."""
        steps = self._wake_channels()
        Job(self._turn, self.task_queue, steps, f"consumers of client {self.name!r}").start()

    def _wake_channels(self) -> Iterator[None]:
        for channel in tuple(self.channels.values()):
            channel.wake_consumers()
            yield

    def end(self, reason: str) -> None:
        """Release everything that the client owned; its connection is gone.

        Args:
            reason: Why it is gone, unless one side has said so before.
        """
        if self.user:
            self._server.broker.audit.record(
                "connection.closed",
                self.actor,
                vhost=self._machine.vhost,
                details={"reason": self._closing.reason or reason},
                is_session=True,
                attributes=lambda: closed_attributes(self.name, self._machine),
            )
        self.parked.end(self.name)
        self._states.advance(StageEvent.LOST)
        self._login.end()
        self.task_queue = self._turn.endings
        self._turn.jobs.add(self)
        self._go_on_to_end(self._turn.new_slice() if self._turn.cuts_jobs else None)

    def finish(self) -> None:
        """Handle at once what is left of a lost connection, because the server stops."""
        self._go_on_to_end(None)

    def _go_on_to_end(self, time_slice: TimeSlice | None) -> None:
        """Handle what had arrived before the connection was lost, then release everything."""
        is_cut = (self.is_open or self._steps is not None) and self._handle_events(time_slice)
        if time_slice is not None and self.is_open and self._replies.waiting and self._is_busy:
            # Events behind a request that waits for the disk had arrived too.
            return
        if not is_cut and self in self._turn.jobs:
            self._turn.jobs.discard(self)
            self._input.drop()
            self._closing.release_everything(self)

    def on_alarms_changed(self) -> None:
        """Park publishes if an alarm is on; handle the parked ones if none is."""
        alarms = self._server.alarms
        if alarms.reason:
            self.parked.raise_alarm(self, alarms.reason, refuses_confirmed=alarms.is_disk_low)
        elif self.parked.is_watching:
            self.parked.lift_alarm(self)

    @property
    def login(self) -> str:
        """User whose login was accepted, also before the virtual host is open; empty before."""
        machine = self._machine
        return "" if machine.state is ConnectionState.CHECKING_LOGIN else machine.user

    def force_close(self, explanation: str) -> Iterator[None]:
        """Handle what the client has sent, in steps; then send connection.close.

        The socket closes after the reply. The client of a session that is not open gets no reason.
        """
        if not self.is_open:
            self._closing.stop()
            return
        self.parked.handle_all(self)
        while self._handle_events(self._turn.time_slice) and self._states.stage not in LOST:
            if self._states.work is _BLOCKED:
                # The commit may be a job that waits for the caller.
                self._handle_events()
                break
            yield
        if self._states.stage not in LOST and self.is_open:
            self._closing.send_close(self, ConnectionForced(explanation))

    def hand_over_close(self) -> Iterator[None] | None:
        """Return the steps that are left of the close of a channel, if it is under way.

        The session takes none of them any more.
        """
        if self._states.work is not Work.CLOSING_CHANNEL:
            return None
        self._states.change_work(WorkEvent.HAND_OVER)
        steps, self._steps = self._steps, None
        return steps

    # Events

    def run_turn(self) -> None:
        """Handle events for one slice; the rest is handled in the next turn."""
        if self._states.stage in LOST:
            self._go_on_to_end(self._turn.time_slice)
            return
        was_paused = self._input.is_paused
        self._handle_events(self._turn.time_slice)
        if was_paused and self._connection.rest and not self._is_busy:
            rest = self._connection.rest
            if self._handle_unexpected(rest, 0, len(rest)):
                self._connection.rest = b""

    @property
    def work(self) -> str:
        """Last request of the client, as the log of stalls names it."""
        event = self._event
        last = self._last_request if event is None else (event.channel, event.identity)
        return _text_of(self.name, last)

    def _handle_events(self, time_slice: TimeSlice | None = None) -> bool:
        """Handle events in order until one has to wait, the peer stops reading, or time is up.

        The server does not read the client again before all that it has sent is handled.

        Args:
            time_slice: Time that it may take; None: handle all, because the connection ends.

        Returns:
            Whether the time was too short; the rest is handled in the next turn.
        """
        if time_slice is None:
            # A step that waits looks again, and lets the commit end.
            self._states.change_work(WorkEvent.HURRY)
        elif self._states.work is _BLOCKED:
            return True
        handled = self._handle_in_order(time_slice)
        event = self._event
        if event is not None and self._steps is None:
            # Keep what the log of stalls names, but no octets of messages.
            self._last_request = event.channel, event.identity
            self._event = None
        is_busy = handled is not _ALL
        if is_busy or self._input.is_paused:
            self._input.pause_while(is_busy=is_busy)
        return handled is _UNTIL_CUT

    def _handle_in_order(self, time_slice: TimeSlice | None) -> _Handled:
        """Handle one thing after another; return how far that came."""
        states, waiting, channels = self._states, self._input, self._channels
        events = waiting.events
        while True:
            try:
                if states.work is _IDLE and not self._handle_next(time_slice):
                    return _UNTIL_WAIT
                # Its steps; most events leave none.
                if self._steps is not None and self._take_all(self._steps, time_slice):
                    self._end_work()
            except Exception as error:  # noqa: BLE001 - logged unless the client is to blame
                self._end_work()
                self._end_with(error)
            # Whether others go first.
            if states.work is _BLOCKED:
                return _UNTIL_CUT
            # As `_is_busy`, without the call: this is asked after each event.
            if not (
                events or channels.closings or self._steps is not None or not waiting.is_scanned
            ):
                return _ALL
            if time_slice is not None and time_slice.is_over:
                self._turn.mark(self, self.task_queue)
                return _UNTIL_CUT

    def _handle_next(self, time_slice: TimeSlice | None) -> bool:
        """Handle the close of a channel, or else the next event; return False if it has to wait."""
        waiting, connection = self._input, self._connection
        if self._channels.closings:
            closing = self._channels.closings.popleft()
            self._begin(closing, WorkEvent.BEGIN_CLOSE, time_slice)
            return True
        events = waiting.events
        if not events and waiting.is_scanned:
            return True
        if not connection.is_writable and connection.is_backlogged:
            return False
        if not events:
            waiting.scan_some()
            if not events:
                return True
        if self._replies.waiting and not self._replies.admits(events[0]):
            return False
        event = self._event = events.popleft()
        steps = self._handle(event)
        if steps is not None:
            self._begin(steps, WorkEvent.BEGIN, time_slice)
        return True

    def _begin(self, steps: Iterator[None], kind: WorkEvent, time_slice: TimeSlice | None) -> None:
        """Begin work that takes steps."""
        self._steps = steps
        self._states.change_work(kind)
        if time_slice is None:
            self._states.change_work(WorkEvent.HURRY)

    def _end_work(self) -> None:
        """End the work: all steps are taken, or one has failed."""
        if self._steps is not None:
            self._steps = None
            self._states.change_work(WorkEvent.END)

    def _take_all(self, steps: Iterator[None], time_slice: TimeSlice | None) -> bool:
        """Take steps until the slice is over or a commit must end; return whether all are taken."""
        for _ in steps:
            if self._states.work is _BLOCKED or (time_slice is not None and time_slice.is_over):
                return False
        return True

    def _end_with(self, error: Exception) -> None:
        """Close the channel or the connection with an error of the event that is handled now."""
        event = self._event
        match error:
            case SoftError() if event is not None:
                self._replies.end_with(partial(self.close_channel, event.channel, error))
            case HardError():
                self._replies.end_with(
                    partial(self._closing.fail, self, close_error_for(event, error))
                )
            case _:
                logger.error("internal error peer=%s", self.name, exc_info=error)
                self._replies.end_with(partial(self._closing.fail, self, InternalError(SEE_LOG)))

    @property
    def _is_busy(self) -> bool:
        """Whether something that the client has sent is not handled yet."""
        waiting = self._input
        return (
            self._steps is not None
            or not waiting.is_scanned
            or bool(waiting.events or self._channels.closings)
        )

    def _handle(self, event: Event) -> Iterator[None] | None:
        """Handle an event; return the steps that are left of it, or None."""
        if self.parked.is_watching and self.is_open and self.parked.parks(self, event):
            return None
        if not self._machine.admits(event):
            return None
        number = event.channel
        if number == 0:
            assert isinstance(event, MethodFrame), "on channel 0 only methods are admitted"
            try:
                self._login.receive(self, event.payload)
            except AnswerAwaited as awaited:
                handle = partial(self._login.open_late, self, event.payload)
                return self._handle_again(awaited, handle)
            return None
        channel = self._channels.opened.get(number)
        if channel is None:
            self._channels.receive(self, self._login.virtual_host, self._machine.channel_max, event)
            return None
        if self._states.stage in LOST and channel.virtual_host.is_deleted:
            # The deletion waits for what open connections do, but not for the rest of lost ones.
            return None
        due = self._channels.machines[number].receive(event)
        if due is None:
            return None
        try:
            return self._handle_on_channel(channel, due)
        except AnswerAwaited as awaited:
            return self._handle_again(awaited, partial(self._handle_late, channel, due))

    def _handle_again(
        self, awaited: AnswerAwaited, handle: Callable[[], Iterable[None] | None]
    ) -> Iterator[None]:
        """Handle something that has changed nothing yet, when a back end has answered."""
        if not self.wait_for_answer(awaited.answer):
            raise awaited
        yield
        yield from (yield from when_answered(self, handle)) or ()

    def _handle_late(self, channel: Channel, event: Event) -> Iterator[None] | None:
        """Handle an event whose permissions had to be asked for; the channel may be closed now."""
        return None if channel.is_closed else self._handle_on_channel(channel, event)

    def _handle_on_channel(self, channel: Channel, event: Event) -> Iterator[None] | None:
        publishing = channel.publishing
        match event:
            case PublishRun():
                self._message_sizes.count(event.messages)
                return publishing.publish_run(
                    channel,
                    event.method_payload,
                    event.messages,
                    event.checked_flags,
                    event.shared_flags,
                )
            case PublishRow():
                self._message_sizes.count(event.messages)
                return publishing.publish_batch(
                    channel,
                    event.method_payloads,
                    event.messages,
                    event.checked_flags,
                    event.shared_flags,
                )
            case AckRun():
                return channel.settle_ranges(event.ranges)
            case MethodFrame():
                return self._methods.handle(self, channel, event)
        return None

    def forget_channel(self, number: int) -> None:
        """Forget a channel that the client has closed."""
        self._channels.forget(number, self.user)

    def close_channel(self, number: int, error: SoftError) -> None:
        """Close a channel with an error; ignore its frames until close-ok."""
        self._closing.close_channel(self, number, error)


def _text_of(client: str, request: tuple[int, bytes] | None) -> str:
    """Return client, channel and method; the method may be one that cannot be decoded."""
    if request is None:
        return f"client={client!r}"
    channel, identity = request
    return f"client={client!r} channel={channel} method={method_name(identity)}"
