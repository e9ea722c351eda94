"""One client's session: dispatches frames to channels, and turns errors into closes.

The session handles events in the order of arrival. While a handler waits for the disk, the session
handles only events that may overlap with it (`reply_queue`), and then pauses reading.
Soft errors close a channel, hard errors close the connection, as AMQP requires.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, cast

from amqp_server.audit.actor import Actor
from amqp_server.authentication import FAILED_RENEWAL
from amqp_server.broker.channel import Channel
from amqp_server.broker.consuming.ending import end_refused_consumers
from amqp_server.broker.counters.auth_attempts import AMQP
from amqp_server.broker.events.channel_events import note_channel_created
from amqp_server.broker.handlers import HANDLERS
from amqp_server.broker.job import Job
from amqp_server.broker.rights import NO_RIGHTS, AnswerAwaited, Rights, when_answered
from amqp_server.connection_facts import backend_details, closed_facts, login_facts, opened_facts
from amqp_server.failed_methods import as_refusal, log_failed_method
from amqp_server.parked_publishes import ParkedPublishes, cost_bytes
from amqp_server.products import qos_reaches_consumers
from amqp_server.protocol import framing
from amqp_server.protocol.channel_machine import ChannelMachine, ChannelState
from amqp_server.protocol.close_methods import channel_close, close_error_for, connection_close
from amqp_server.protocol.connection_machine import ConnectionMachine, ConnectionState
from amqp_server.protocol.constants import ClassId
from amqp_server.protocol.errors import (
    AccessRefused,
    AmqpError,
    CommandInvalid,
    ConnectionForced,
    FrameError,
    HardError,
    InternalError,
    NotAllowed,
    SoftError,
)
from amqp_server.protocol.framing import (
    AckRun,
    MethodFrame,
    PublishRow,
    PublishRun,
)
from amqp_server.protocol.methods import (
    BasicPublish,
    ChannelCloseOk,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionTune,
    Method,
    decode_method,
    method_frame,
    method_name,
)
from amqp_server.protocol.misplaced_publish import misplaced_publish
from amqp_server.reply_queue import ReplyQueue
from amqp_server.time_slice import TimeSlice

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from amqp_server.authentication import PeerAuthenticator
    from amqp_server.broker.handlers.handler import MethodSteps, Outcome
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.client_socket import ClientSocket
    from amqp_server.protocol.framing import Event
    from amqp_server.protocol.large_delivery import LargeFrames
    from amqp_server.server_context import ServerContext

logger = logging.getLogger(__name__)

SCANNED_BYTES_MAX: Final = 256 * 1024 if framing.COMPILED else 16 * 1024
"""Octets that are scanned at once: about 1.3 ms for the smallest frames of a read.

With the compiled kernel that is one whole read, and the frame that the read before it began.
"""
REPLY_SUCCESS: Final = 200
WAITING = "waiting"
"""Reason not to read: what the client has sent is not handled yet."""
EXPIRY_LOOK_SECONDS: Final = 60.0
"""Longest time until the server looks again whether a credential has expired."""
_SEE_LOG = "internal error, see the server's log"


class ClientSession:
    """The state of one client after its protocol header; implements the broker's `Client`.

    Args:
        server: Server whose broker the client uses.
        connection: Connection that sends and receives the session's octets.
        machine: Handshake whose greeting (connection.start) this session sends.
        authenticator: Who decides in it about the login.
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
        self.channels: dict[int, Channel] = {}
        self.parked = ParkedPublishes(
            self, server.config.limits.parked_bytes_per_connection_max, server.parked_budget
        )
        self._server = server
        self._connection = connection
        self._machine = machine
        self._authenticator = authenticator
        self._expiry: asyncio.TimerHandle | None = None
        limits = server.config.limits
        self._scanner = framing.FrameScanner(
            min(limits.login_bytes_max, server.config.frame_bytes_max),
            server.config.max_message_bytes,
        )
        # What was read and is not scanned yet: a part of the read buffer while it is handled, and
        # of the connection's `rest` afterwards.
        self._input: bytes | bytearray | None = None
        self._input_at = 0
        self._input_end = 0
        self._is_scanned = True
        self._events: deque[Event] = deque()
        # About how many octets the events came from: the last scan's, and those of parked events.
        self._event_bytes = 0
        # The event that is handled now, and the steps that are left of it.
        self._event: Event | None = None

        self._steps: Iterator[None] | None = None
        # Channels that are being closed: each is an event that comes before all that wait.
        self._closings: deque[Iterator[None]] = deque()
        self._closing: Iterator[None] | None = None
        # Whether a commit of another client has to end, or a back end to answer, before anything
        # goes on. That cannot be waited for while everything is handled in one piece.
        self._is_held_up = False
        self._is_in_one_piece = False
        self._is_releasing = False
        self._after_release: list[Callable[[], None]] = []
        self._is_lost = False
        self._end_reason = ""
        self._is_counted = False
        # Whether the client is not read, because what it has sent is not handled yet.
        self._is_waiting = False
        self._virtual_host: VirtualHost | None = None
        # Of the open channels, and of those whose close the client has not confirmed.
        self._channel_machines: dict[int, ChannelMachine] = {}
        self._replies = ReplyQueue(self.resume_handling)
        self._turn = server.broker.turn
        self._message_sizes = server.broker.message_sizes
        self.line = self._turn.new_line()
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
    def virtual_host(self) -> VirtualHost | None:
        """Virtual host that was opened, also after the close; None before."""
        return self._virtual_host

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
        return self._event_bytes if self._is_busy else 0

    # amqp_server.broker.client.Client

    @property
    def is_writable(self) -> bool:
        """Whether the write buffer has room for deliveries."""
        return self._connection.is_writable

    def write(self, octets: bytes | bytearray) -> None:
        """Send frames."""
        self._connection.write(octets)

    def write_large(self, frames: LargeFrames) -> None:
        """Send the frames of a large message, a part at a time; what is sent later comes after."""
        self._connection.write_large(frames)

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
        self._is_held_up = not self._is_in_one_piece
        return self._is_held_up

    def on_commit_ended(self) -> None:
        """Go on after `wait_for_commit`."""
        self._is_held_up = False
        self._turn.mark(self, self.line)

    def wait_for_answer(self, answer: asyncio.Future[None]) -> bool:
        """Handle nothing more until a back end has answered; return False if that cannot wait."""
        self._is_held_up = not self._is_in_one_piece
        if self._is_held_up:
            answer.add_done_callback(lambda _: self.on_commit_ended())
        return self._is_held_up

    # For the connection

    def receive(self, buffer: bytearray, at: int, end: int) -> int:
        """Handle what was read; return the position of the octets that must come again.

        The session keeps no reference to the buffer.
        """
        self._input, self._input_at, self._input_end = buffer, at, end
        self._is_scanned = False
        self._turn.run_now(self, self.line)
        self._input = None
        at = self._input_at
        if self._is_busy:
            self._pause_for_events()
            return at
        return end if self._handle_misplaced(buffer, at, end) else at

    def _scan_some(self) -> None:
        """Scan the next part of what was read, at least one whole frame if there is one.

        What the turn has no time for becomes the connection's `rest`, which is scanned later.
        """
        octets, at, end = self._input, self._input_at, self._input_end
        if octets is None:
            octets, at, end = self._connection.rest, 0, len(self._connection.rest)
        events: list[Event] = []
        part_end = min(end, at + SCANNED_BYTES_MAX)
        after = self._scanner.scan(octets, at, part_end, events)
        while after == at and part_end < end:
            # A frame, or a publish, is longer than the part.
            part_end = min(end, 2 * part_end - at)
            after = self._scanner.scan(octets, at, part_end, events)
        # There were none: nothing is scanned before all of the last scan is handled.
        self._events.extend(events)
        self._event_bytes = after - at
        self._is_scanned = part_end == end
        if self._input is None:
            self._connection.rest = self._connection.rest[after:]
        else:
            self._input_at = after

    def _drop_input(self) -> None:
        """Ignore all that the client has sent and that is not handled yet."""
        self._events.clear()
        self._is_scanned = True
        self._input_at = self._input_end
        self._connection.rest = b""

    def _handle_misplaced(self, octets: bytes | bytearray, at: int, end: int) -> bool:
        """Handle a publish that is wrong before its content arrives; return whether there was one.

        Every event before it must be handled.
        """
        publish = misplaced_publish(octets, at, end, self._channel_machines)
        if publish is None:
            return False
        self._events.append(publish)
        self.resume_handling()
        return True

    # amqp_server.parked_publishes.Publisher

    def capability(self, name: str) -> bool:
        """Return whether the client has declared a capability."""
        return self._machine.capability(name)

    def awaits_content(self, number: int) -> bool:
        """Return whether the content of a publish is incomplete on a channel."""
        machine = self._channel_machines.get(number)
        return machine is not None and machine.awaits_content

    def handle_again(self, events: Iterable[Event]) -> None:
        """Handle events, in this order, before all other waiting ones."""
        again = tuple(events)
        self._event_bytes = self.waiting_event_bytes + sum(map(cost_bytes, again))
        self._events.extendleft(reversed(again))
        self.resume_handling()

    def wait_for_events(self) -> None:
        """Do not read the client before the events that wait are handled, if there are any."""
        if self._is_busy and not self._is_waiting:
            self._is_waiting = True
            self.pause_reading(WAITING)

    def resume_handling(self) -> None:
        """Handle the events that wait, in the next turn: a reply is sent, or there is room."""
        if self._is_busy:
            self._turn.mark(self, self.line)

    def wake_consumers(self) -> None:
        """Resume deliveries: the write buffer has room again."""
        for channel in self.channels.values():
            channel.wake_consumers()

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
                details={"reason": self._end_reason or reason},
                is_session=True,
                facts=lambda: closed_facts(self.name, self._machine),
            )
        self.parked.end()
        self._is_lost = True
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if self._machine.state is ConnectionState.CHECKING_LOGIN or self._machine.renewal:
            self._replies.cancel()
        self.line = self._turn.endings
        self._turn.jobs.add(self)
        self._go_on_to_end(TimeSlice() if self._turn.cuts_jobs else None)

    def finish(self) -> None:
        """Handle at once what is left of a lost connection, because the server stops."""
        self._go_on_to_end(None)

    def _go_on_to_end(self, time_slice: TimeSlice | None) -> None:
        """Handle what had arrived before the connection was lost, then release everything."""
        is_cut = (self.is_open or self._steps is not None) and self._handle_events(time_slice)
        if not is_cut and self in self._turn.jobs:
            self._turn.jobs.discard(self)
            self._drop_input()
            self._release_everything()

    def on_alarms_changed(self) -> None:
        """Park publishes if an alarm is on; handle the parked ones if none is."""
        alarms = self._server.alarms
        if alarms.reason:
            self.parked.raise_alarm(alarms.reason, refuses_confirmed=alarms.is_disk_low)
        elif self.parked.is_watching:
            self.parked.lift_alarm()

    @property
    def login(self) -> str:
        """User whose login was accepted, also before the virtual host is open; empty before."""
        machine = self._machine
        return "" if machine.state is ConnectionState.CHECKING_LOGIN else machine.user

    def force_close(self, explanation: str) -> Iterator[None]:
        """Handle what the client has sent, in steps; then send connection.close.

        The socket closes after the reply.
        """
        if not self.is_open:
            self._connection.close()
            return
        self.parked.handle_all()
        while self._handle_events(self._turn.time_slice) and not self._is_lost:
            if self._is_held_up:
                # The commit may be a job that waits for the caller.
                self._handle_events()
                break
            yield
        if not self._is_lost and self.is_open:
            self._send_close(ConnectionForced(explanation))

    # Closing

    def _send_close(self, error: AmqpError) -> None:
        self._end_reason = self._end_reason or str(error)
        # Waiting events stay: the client's own close may be among them.
        self._machine.close()
        self._release_everything(partial(self._finish_close, connection_close(error)))

    def _finish_close(self, close: ConnectionClose) -> None:
        self.write(method_frame(0, close))
        self._connection.close_later()

    def _release_everything(self, then: Callable[[], None] | None = None) -> None:
        """End all channels now; release in steps what they hold, and the exclusive queues.

        Args:
            then: Called when that is done. The client hears of its end only then: a quick
                reconnect must find the messages, and the names of its queues free.
        """
        if then is not None:
            self._after_release.append(then)
        if self._is_releasing:
            # Our own close may be followed by the client's, and by the loss of the connection.
            return
        self._is_releasing = True
        self._server.broker.orphan_queues_of(self)
        channels, self.channels = list(self.channels.values()), {}
        limits = self._server.connection_limits
        limits.note_channels_closed(self.user, len(channels))
        if self._is_counted:
            self._is_counted = False
            limits.note_closed(self.user, self._virtual_host)
        for channel in channels:
            channel.end()
        machines, self._channel_machines = self._channel_machines, {}
        for machine in machines.values():
            machine.close()
        closings, self._closings = self._closings, deque()
        if self._closing is not None and self._steps is self._closing:
            closings.appendleft(self._closing)
            self._steps = self._closing = None
        steps = self._release([*closings, *(channel.release() for channel in channels)])
        Job(self._turn, self._turn.endings, steps, f"end of client {self.name!r}").start()

    def _release(self, endings: list[Iterator[None]]) -> Iterator[None]:
        for steps in endings:
            try:
                yield from steps
            except Exception:
                # The other channels hold messages too.
                logger.exception("channel not released peer=%s", self.name)
        try:
            yield from self._server.broker.delete_queues_of(self)
        finally:
            self._is_releasing = False
            while self._after_release:
                self._after_release.pop(0)()

    def _fail(self, error: AmqpError) -> None:
        """Close the connection with an error; without a reply if the peer is not logged in."""
        if self._machine.state in (ConnectionState.CLOSING, ConnectionState.CLOSED):
            return
        logger.warning("connection error peer=%s user=%s error=%s", self.name, self.user, error)
        state = self._machine.state
        understands_close = state not in (
            ConnectionState.AWAITING_START_OK,
            ConnectionState.CHECKING_LOGIN,
        ) or self._machine.capability("authentication_failure_close")
        if not understands_close:
            self._release_everything()
            self._drop_input()
            self._machine.close()
            self._connection.close_in_silence()
            return
        self._send_close(error)

    # Events

    def run_turn(self) -> None:
        """Handle events for one slice; the rest is handled in the next turn."""
        if self._is_lost:
            self._go_on_to_end(self._turn.time_slice)
            return
        was_waiting = self._is_waiting
        self._handle_events(self._turn.time_slice)
        if was_waiting and not self._is_busy:
            rest = self._connection.rest
            if self._handle_misplaced(rest, 0, len(rest)):
                self._connection.rest = b""

    @property
    def work(self) -> str:
        """What the client asked for last, as the log of stalls names it."""
        return _text_of(self.name, self._event)

    def _handle_events(self, time_slice: TimeSlice | None = None) -> bool:
        """Handle events in order until one has to wait, the peer stops reading, or time is up.

        The server does not read the client again before all that it has sent is handled.

        Args:
            time_slice: Time that it may take; None: handle all, because the connection ends.

        Returns:
            Whether the time was too short; the rest is handled in the next turn.
        """
        is_cut = False
        self._is_in_one_piece = time_slice is None
        if self._is_held_up and time_slice is not None:
            return True
        # In one piece: the step that waits looks again, and lets the commit end.
        self._is_held_up = False
        events, admits, connection = self._events, self._replies.admits, self._connection
        while True:
            try:
                if self._steps is None:
                    if self._closings:
                        self._steps = self._closing = self._closings.popleft()
                    elif connection.is_clogged:
                        break
                    elif not events and not self._is_scanned:
                        self._scan_some()
                        continue
                    elif events and admits(events[0]):
                        self._event = events.popleft()
                        self._steps = self._handle(self._event)
                    else:
                        break
                if self._steps is not None and self._take_all(self._steps, time_slice):
                    self._steps = None
            except Exception as error:  # noqa: BLE001 - logged unless the client is to blame
                self._steps = None
                self._end_with(error)
            if self._is_held_up:
                is_cut = True
                break
            if time_slice is not None and self._is_busy and time_slice.is_over:
                self._turn.mark(self, self.line)
                is_cut = True
                break
        self._forget_octets()
        self._pause_for_events()
        return is_cut

    def _forget_octets(self) -> None:
        """Keep the name of the last method for the log of stalls, but no octets of messages."""
        if self._steps is None and self._event is not None:
            self._event = MethodFrame(self._event.channel, self._event.identity)

    def _take_all(self, steps: Iterator[None], time_slice: TimeSlice | None) -> bool:
        """Take steps until the slice is over or a commit must end; return whether all are taken."""
        for _ in steps:
            if self._is_held_up or (time_slice is not None and time_slice.is_over):
                return False
        return True

    def _end_with(self, error: Exception) -> None:
        """Close the channel or the connection with an error of the event that is handled now."""
        event = self._event
        match error:
            case SoftError() if event is not None:
                self._replies.end_with(partial(self.close_channel, event.channel, error))
            case HardError():
                self._replies.end_with(partial(self._fail, close_error_for(event, error)))
            case _:
                logger.error("internal error peer=%s", self.name, exc_info=error)
                self._replies.end_with(partial(self._fail, InternalError(_SEE_LOG)))

    @property
    def _is_busy(self) -> bool:
        """Whether something that the client has sent is not handled yet."""
        return (
            self._steps is not None or not self._is_scanned or bool(self._events or self._closings)
        )

    def _pause_for_events(self) -> None:
        """Read the client only while all that it has sent is handled.

        One that does not read its replies is not read for that reason already.
        """
        is_waiting = self._is_busy and not self._connection.is_clogged
        if is_waiting == self._is_waiting:
            return
        self._is_waiting = is_waiting
        if is_waiting:
            self.pause_reading(WAITING)
        else:
            self.resume_reading(WAITING)

    def _handle(self, event: Event) -> Iterator[None] | None:
        """Handle an event; return the steps that are left of it, or None."""
        if self.parked.is_watching and self.is_open and self.parked.parks(event):
            return None
        if not self._machine.admits(event):
            return None
        number = event.channel
        if number == 0:
            assert isinstance(event, MethodFrame), "on channel 0 only methods are admitted"
            try:
                self._handle_connection_method(event.payload)
            except AnswerAwaited as awaited:
                return self._handle_again(awaited, partial(self._open_late, event.payload))
            return None
        channel = self.channels.get(number)
        if channel is None:
            self._handle_without_channel(event)
            return None
        if self._is_lost and channel.virtual_host.is_deleted:
            # The deletion waits for what open connections do, but not for the rest of lost ones.
            return None
        due = self._channel_machines[number].receive(event)
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

    def _open_late(self, payload: bytes) -> None:
        """Handle connection.open when it is known whether the user may open the virtual host."""
        if self._is_lost:
            # It would be recorded as opened after its end.
            self._drop_input()
        else:
            self._handle_connection_method(payload)

    def _handle_late(self, channel: Channel, event: Event) -> Iterator[None] | None:
        """Handle an event whose permissions had to be asked for; the channel may be closed now."""
        return None if channel.is_closed else self._handle_on_channel(channel, event)

    def _handle_on_channel(self, channel: Channel, event: Event) -> Iterator[None] | None:
        publishing = channel.publishing
        match event:
            case PublishRun():
                self._message_sizes.note(event.messages)
                return publishing.publish_run(
                    event.method_payload, event.messages, event.checked_flags, event.shared_flags
                )
            case PublishRow():
                self._message_sizes.note(event.messages)
                return publishing.publish_row(
                    event.method_payloads, event.messages, event.checked_flags, event.shared_flags
                )
            case AckRun():
                return channel.settle_ranges(event.ranges)
            case MethodFrame():
                return self._handle_method(channel, event)
        return None

    def _handle_connection_method(self, payload: bytes) -> None:
        """Handle a method of channel 0; AnswerAwaited: nothing has changed, handle it again."""
        machine = self._machine
        state = machine.state
        method = decode_method(payload)
        if method.class_id != ClassId.CONNECTION:
            raise machine.unexpected(method.class_id, method.method_id)
        try:
            answer = machine.receive(method)
        except AnswerAwaited:
            raise
        except AccessRefused as error:
            self._record_refusal(error)
            self._fail(error)
            return
        except AmqpError as error:
            if state is ConnectionState.AWAITING_OPEN:
                self._record_refusal(error)
            # On channel 0 even a soft error ends the connection.
            self._fail(error.with_method(method.class_id, method.method_id))
            return
        if machine.state is ConnectionState.CLOSED:
            if isinstance(method, ConnectionClose):
                self._end_reason = self._end_reason or _client_reason(method)
            self._drop_input()
            self._release_everything(partial(self._close_with, answer))
            return
        if answer is not None:
            self.write(method_frame(0, answer))
        if isinstance(answer, ConnectionTune):
            self._record_login()
        self._go_on_after(method)

    def _go_on_after(self, method: Method) -> None:
        """Do what a method of channel 0 has made due: wait for a decision, or serve the client."""
        machine = self._machine
        if machine.login is not None:
            login = asyncio.ensure_future(machine.login)
            self._replies.wait(login, partial(self._finish_login, login), method.identity)
        elif machine.renewal is not None:
            renewal = asyncio.ensure_future(machine.renewal)
            self._replies.wait(renewal, partial(self._finish_renewal, renewal), method.identity)
        elif machine.state is ConnectionState.AWAITING_OPEN:
            self._tuned()
        elif machine.state is ConnectionState.OPEN and not self.user:
            self._opened()

    def _opened(self) -> None:
        """Begin to serve a client that has opened its virtual host."""
        machine = self._machine
        self._connection.handshake_done()
        self.user = machine.user
        self.rights = Rights(self._authenticator.rules, machine.user, machine.vhost)
        self._watch_expiry()
        # Not looked up again: another one may get the same name.
        self._virtual_host = self._server.broker.vhosts.get(machine.vhost)
        self._server.connection_limits.note_opened(self.user, self._virtual_host)
        self._is_counted = True
        logger.info("connection open peer=%s user=%s vhost=%s", self.name, self.user, machine.vhost)
        self._server.broker.audit.record(
            "connection.created",
            self.actor,
            vhost=machine.vhost,
            details={"product": machine.client_product},
            is_session=True,
            facts=lambda: opened_facts(self.name, machine, self._connection.tls),
        )

    def _record_login(self) -> None:
        self._server.broker.auth_attempts.note(AMQP, accepted=True)
        self.actor = Actor(self._machine.user, self.actor.peer, self._machine.client_name)
        self._server.broker.audit.record(
            "user.authentication.success",
            self.actor,
            details={
                "mechanism": self._machine.mechanism,
                **backend_details(self._authenticator.accepted.backend),
            },
            is_session=True,
            facts=self._login_facts,
        )

    def _login_facts(self) -> dict[str, object]:
        is_tls = self._connection.tls is not None
        return login_facts(self.name, self._machine, is_tls=is_tls)

    def _record_refusal(self, error: AmqpError) -> None:
        machine = self._machine
        actor = Actor(machine.claimed_user, self.actor.peer, machine.client_name)
        is_login = isinstance(error, AccessRefused) and not machine.user
        if is_login:
            self._server.broker.auth_attempts.note(AMQP, accepted=False)
        reason = (is_login and machine.refusal) or error.reply_text
        self._server.broker.audit.record_refusal(actor, reason, facts=self._login_facts)

    def _finish_login(self, login: asyncio.Future[bool]) -> None:
        """Go on with the handshake when a password has been checked."""
        machine = self._machine
        if login.cancelled() or machine.state is not ConnectionState.CHECKING_LOGIN:
            return
        if (error := login.exception()) is not None:
            logger.error("login not checked peer=%s", self.name, exc_info=error)
        try:
            answer = machine.finish_login(accepted=error is None and login.result())
        except AccessRefused as refusal:
            self._record_refusal(refusal)
            self._fail(refusal)
        else:
            self._record_login()
            self.write(method_frame(0, answer))

    def _finish_renewal(self, renewal: asyncio.Future[str]) -> None:
        """Answer the client when its new secret has been checked."""
        machine = self._machine
        if renewal.cancelled() or machine.state is not ConnectionState.OPEN:
            return
        if (failure := renewal.exception()) is not None:
            logger.error("secret not checked peer=%s", self.name, exc_info=failure)
        refusal = FAILED_RENEWAL if failure is not None else renewal.result()
        try:
            answer = machine.finish_renewal(refusal)
        except AmqpError as error:
            self._fail(error)
            return
        self.write(method_frame(0, answer))
        self._watch_expiry()
        steps = chain.from_iterable(map(end_refused_consumers, tuple(self.channels.values())))
        Job(self._turn, self.line, steps, f"new secret of client {self.name!r}").start()

    def _watch_expiry(self) -> None:
        """Close the connection when what the user has logged in with expires."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        at_seconds = self._authenticator.expires_seconds
        if at_seconds is None or not self.is_open:
            return
        left_seconds = at_seconds - time.time()
        if left_seconds > 0:
            # The clock may be set: look again now and then.
            wait_seconds = min(left_seconds, EXPIRY_LOOK_SECONDS)
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(wait_seconds, self._watch_expiry)
            return
        logger.warning("credential expired peer=%s user=%s", self.name, self.user)
        Job(
            self._turn,
            self._turn.endings,
            self.force_close("credential expired"),
            f"expired credential of client {self.name!r}",
        ).start()

    def _close_with(self, answer: Method | None) -> None:
        if answer is not None:
            self.write(method_frame(0, answer))
        self._connection.close()

    def _tuned(self) -> None:
        self.frame_max = self._machine.frame_max
        self._scanner.frame_max = self.frame_max
        self._scanner.body_bytes_max = min(
            self.frame_max - 8, self._server.config.max_message_bytes
        )
        self.notifies_cancel = self._machine.capability("consumer_cancel_notify")
        self.qos_reaches_consumers = qos_reaches_consumers(
            self._machine.client_product, self._server.config.present_product
        )
        self._connection.begin_heartbeats(self._machine.heartbeat_seconds)

    def _handle_without_channel(self, event: Event) -> None:
        """Open a channel, or take an event of one that is closing."""
        number = event.channel
        machine = self._channel_machines.get(number) or ChannelMachine(
            self._server.config.max_message_bytes, self._server.broker.assembly_budget, self
        )
        is_closing = machine.state is ChannelState.CLOSING
        due = machine.receive(event)
        if is_closing:
            if due is not None:
                # The client's close has crossed ours.
                self.write(method_frame(number, ChannelCloseOk()))
            elif machine.state is ChannelState.UNOPENED:
                del self._channel_machines[number]
            return
        if len(self.channels) >= self._machine.channel_max:
            # As in RabbitMQ, the limit counts channels; it does not limit their numbers.
            raise NotAllowed(
                f"number of channels opened ({len(self.channels)}) has reached the negotiated "
                f"channel_max ({self._machine.channel_max})"
            )
        limits = self._server.connection_limits
        limits.check_channel(self.user)
        vhost = self._virtual_host
        if vhost is None or vhost.is_deleted:
            # The virtual host was deleted a moment ago: connection.close comes next.
            return
        self._channel_machines[number] = machine
        channel = self.channels[number] = Channel(number, self, vhost, self._server.broker)
        limits.note_channel_opened(self.user)
        channel.send(ChannelOpenOk())
        note_channel_created(channel)

    def _handle_method(self, channel: Channel, event: MethodFrame) -> Iterator[None] | None:
        if event.identity == BasicPublish.identity:
            channel.publishing.check_target(event.payload)
            return None
        method = decode_method(event.payload)
        if not method.is_utf8:
            raise FrameError("Malformed UTF-8 in shortstr")
        try:
            reply = self._call_handler(channel, method)
        except AmqpError as error:
            raise error.with_method(method.class_id, method.method_id) from error.__cause__
        if isinstance(reply, Iterator):
            # The result of a plain iterator is None.
            return self._take_steps(channel, method, cast("MethodSteps", reply))
        if reply is not None:
            self._await_reply(channel, method, reply)
        return None

    def _take_steps(self, channel: Channel, method: Method, steps: MethodSteps) -> Iterator[None]:
        """Take all steps of a method, then wait for what is left; an error names the method."""
        try:
            reply = yield from steps
        except AmqpError as error:
            raise error.with_method(method.class_id, method.method_id) from error.__cause__
        if reply is not None:
            self._await_reply(channel, method, reply)

    def _await_reply(
        self, channel: Channel, method: Method, reply: Awaitable[Method | None]
    ) -> None:
        waiting = asyncio.ensure_future(reply)
        send = partial(self._finish, channel, method, waiting)
        self._replies.wait(waiting, send, method.identity)

    def _call_handler(self, channel: Channel, method: Method) -> Outcome | Iterator[None]:
        handler = HANDLERS.get(type(method))
        if handler is None:
            # The client sent a method that only a server sends, or one that belongs on channel 0.
            raise CommandInvalid("unimplemented method")
        return handler(channel, method)

    def _finish(
        self, channel: Channel, method: Method, done: asyncio.Future[Method | None]
    ) -> None:
        """Send the reply of a method that waited for the disk, or its error."""
        if done.cancelled():
            return
        error = as_refusal(done.exception())
        if error is None:
            reply = done.result()
            if reply is not None and not channel.is_closed:
                channel.send(reply)
        elif isinstance(error, SoftError):
            self.close_channel(channel.number, error.with_method(method.class_id, method.method_id))
        else:
            log_failed_method(self.name, method, error)
            self._fail(InternalError(_SEE_LOG))

    def forget_channel(self, number: int) -> None:
        """Forget a channel that the client has closed."""
        del self.channels[number]
        del self._channel_machines[number]
        self._server.connection_limits.note_channels_closed(self.user, 1)

    def close_channel(self, number: int, error: SoftError) -> None:
        """Close a channel with an error; ignore its frames until close-ok."""
        channel = self.channels.pop(number, None)
        if channel is None:
            return
        self._server.connection_limits.note_channels_closed(self.user, 1)
        logger.warning("channel error peer=%s channel=%d error=%s", self.name, number, error)
        self.parked.forget(number)
        self._channel_machines[number].close()
        channel.end()
        self._closings.append(self._close(channel, error))
        self.resume_handling()

    def _close(self, channel: Channel, error: SoftError) -> Iterator[None]:
        """Release a channel; then send the client the error.

        What the client has sent is handled after that: its own close of the channel, for example.
        """
        yield from channel.release()
        self.write(method_frame(channel.number, channel_close(error)))


def _client_reason(close: ConnectionClose) -> str:
    """Return why a client has closed its connection."""
    if close.reply_code == REPLY_SUCCESS:
        return "closed by the client"
    return f"closed by the client: {close.reply_code} {close.reply_text}"


def _text_of(client: str, event: Event | None) -> str:
    """Return client, channel and method; the method may be one that cannot be decoded."""
    if event is None:
        return f"client={client!r}"
    method = method_name(event.identity)
    return f"client={client!r} channel={event.channel} method={method}"
