"""Channel 0 of a session: the login, the opening of a virtual host, new secrets, and closes.

The handshake itself is `protocol/connection_machine.py`. Here are its effects: what the client may
do afterwards, the records of the audit log, decisions that take time, and the one behaviour that
depends on the product names of client and server.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.audit.actor import Actor
from amqp_server.broker.consuming.ending import end_refused_consumers
from amqp_server.broker.counters.broker_counters import AMQP
from amqp_server.broker.job import Job
from amqp_server.broker.rights import AnswerAwaited, Rights
from amqp_server.connections.authentication import FAILED_RENEWAL
from amqp_server.connections.connection_attributes import (
    backend_details,
    login_attributes,
    opened_attributes,
)
from amqp_server.connections.session.credential_expiry import CredentialExpiry, ExpiringSession
from amqp_server.connections.session.session_closing import EndingSession
from amqp_server.connections.session.session_machine import LOST, Stage, StageEvent
from amqp_server.protocol.connection_machine import ConnectionState
from amqp_server.protocol.constants import ClassId
from amqp_server.protocol.errors import AccessRefused, AmqpError
from amqp_server.protocol.methods import (
    ConnectionTune,
    ConnectionUpdateSecret,
    decode_method,
    method_frame,
)

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.connections.authentication import PeerAuthenticator
    from amqp_server.connections.client_socket import ClientSocket
    from amqp_server.connections.reply_queue import ReplyQueue
    from amqp_server.connections.server_context import ServerContext
    from amqp_server.connections.session.session_closing import SessionClosing
    from amqp_server.connections.session.session_input import SessionInput
    from amqp_server.connections.session.session_machine import SessionMachine
    from amqp_server.protocol.connection_machine import ConnectionMachine
    from amqp_server.protocol.methods import Method

logger = logging.getLogger("amqp_server.client_session")

RABBITMQ: Final = "RabbitMQ"
PY_AMQP: Final = b"py-amqp"


class LoginSession(EndingSession, ExpiringSession, Protocol):
    """The session that logs in; its attributes as `Client` are set here."""

    @property
    def channels(self) -> dict[int, Channel]:
        """The open channels, by number."""


class SessionLogin:
    """Handles the methods of channel 0.

    The session passes itself to each method: a reference back would make both garbage in a cycle.

    Args:
        server: Server whose broker the client uses.
        connection: Connection of the client.
        machine: Handshake, whose greeting the session sends.
        authenticator: Decides in it about the login.
        states: Stage of the session.
        waiting: Input of the session that is not handled yet.
        replies: Replies that wait, also for decisions about a login.
        closing: Closes the session when the handshake fails, or when the client asks for it.

    Attributes:
        virtual_host: Virtual host that was opened, also after the close; None before.
        expiry: When the credential expires.
    """

    def __init__(
        self,
        server: ServerContext,
        connection: ClientSocket,
        machine: ConnectionMachine,
        authenticator: PeerAuthenticator,
        states: SessionMachine,
        waiting: SessionInput,
        replies: ReplyQueue,
        closing: SessionClosing,
    ) -> None:
        self.virtual_host: VirtualHost | None = None
        self.expiry = CredentialExpiry(server.broker.turn, authenticator)
        self._server = server
        self._connection = connection
        self._machine = machine
        self._authenticator = authenticator
        self._states = states
        self._waiting = waiting
        self._replies = replies
        self._closing = closing

    def receive(self, session: LoginSession, payload: bytes) -> None:
        """Handle a method of channel 0; AnswerAwaited: nothing has changed, handle it again."""
        machine = self._machine
        state = machine.state
        method = decode_method(payload)
        if method.class_id != ClassId.CONNECTION:
            raise machine.unexpected(method.class_id, method.method_id)
        if isinstance(method, ConnectionUpdateSecret) and self._states.stage in LOST:
            # Nothing would stop the check of the secret, or watch when it expires.
            return
        try:
            answer = machine.receive(method)
        except AnswerAwaited:
            raise
        except AccessRefused as error:
            self._record_refusal(session, error)
            self._closing.fail(session, error)
            return
        except AmqpError as error:
            if state is ConnectionState.AWAITING_OPEN:
                self._record_refusal(session, error)
            # On channel 0 even a soft error ends the connection.
            self._closing.fail(session, error.with_method(method.class_id, method.method_id))
            return
        if machine.state is ConnectionState.CLOSED:
            self._closing.on_closed(session, method, answer)
            return
        if answer is not None:
            session.write(method_frame(0, answer))
        if isinstance(answer, ConnectionTune):
            self._record_login(session)
        self._go_on_after(session, method)

    def open_late(self, session: LoginSession, payload: bytes) -> None:
        """Handle connection.open when it is known whether the user may open the virtual host."""
        if self._states.stage in LOST or self._machine.state is not ConnectionState.AWAITING_OPEN:
            # It would be recorded as opened after its end.
            self._waiting.drop()
        else:
            self.receive(session, payload)

    def end(self) -> None:
        """Stop: the client is gone. Nothing else waits for a decision about its login."""
        self.expiry.cancel()
        if self._machine.login is not None or self._machine.renewal is not None:
            self._replies.cancel()

    def _go_on_after(self, session: LoginSession, method: Method) -> None:
        """Do what a method of channel 0 has made due: wait for a decision, or serve the client."""
        machine = self._machine
        if machine.login is not None:
            login = asyncio.ensure_future(machine.login)
            send = partial(self._finish_login, session, login)
            self._replies.wait(session, login, send, method.identity)
        elif machine.renewal is not None:
            renewal = asyncio.ensure_future(machine.renewal)
            send = partial(self._finish_renewal, session, renewal)
            self._replies.wait(session, renewal, send, method.identity)
        elif machine.state is ConnectionState.AWAITING_OPEN:
            self._tuned(session)
        elif machine.state is ConnectionState.OPEN and self._states.stage is Stage.HANDSHAKE:
            self._opened(session)

    def _tuned(self, session: LoginSession) -> None:
        session.frame_max = self._machine.frame_max
        scanner = self._waiting.scanner
        scanner.frame_max = session.frame_max
        scanner.body_bytes_max = min(session.frame_max - 8, self._server.config.max_message_bytes)
        session.notifies_cancel = self._machine.capability("consumer_cancel_notify")
        session.qos_reaches_consumers = qos_reaches_consumers(
            self._machine.client_product, self._server.config.present_product
        )
        self._connection.begin_heartbeats(self._machine.heartbeat_seconds)

    def _opened(self, session: LoginSession) -> None:
        """Begin to serve a client that has opened its virtual host."""
        machine = self._machine
        self._connection.handshake_done()
        session.user = machine.user
        session.rights = Rights(self._authenticator.rules, machine.user, machine.vhost)
        self.expiry.watch(session)
        # Not looked up again: another one may get the same name.
        self.virtual_host = self._server.broker.vhosts.get(machine.vhost)
        self._server.connection_limits.note_opened(session.user, self.virtual_host)
        self._states.advance(StageEvent.OPENED)
        name = session.name
        logger.info("connection open peer=%s user=%s vhost=%s", name, session.user, machine.vhost)
        self._server.broker.audit.record(
            "connection.created",
            session.actor,
            vhost=machine.vhost,
            details={"product": machine.client_product},
            is_session=True,
            attributes=lambda: opened_attributes(name, machine, self._connection.tls),
        )

    def _record_login(self, session: LoginSession) -> None:
        self._server.broker.auth_attempts.count(AMQP, accepted=True)
        machine = self._machine
        session.actor = Actor(machine.user, session.actor.peer, machine.client_name)
        self._server.broker.audit.record(
            "user.authentication.success",
            session.actor,
            details={
                "mechanism": machine.mechanism,
                **backend_details(self._authenticator.accepted.backend),
            },
            is_session=True,
            attributes=partial(self._login_attributes, session.name),
        )

    def _login_attributes(self, name: str) -> dict[str, object]:
        is_tls = self._connection.tls is not None
        return login_attributes(name, self._machine, is_tls=is_tls)

    def _record_refusal(self, session: LoginSession, error: AmqpError) -> None:
        machine = self._machine
        actor = Actor(machine.claimed_user, session.actor.peer, machine.client_name)
        is_login = isinstance(error, AccessRefused) and not machine.user
        if is_login:
            self._server.broker.auth_attempts.count(AMQP, accepted=False)
        reason = (is_login and machine.refusal) or error.reply_text
        attributes = partial(self._login_attributes, session.name)
        self._server.broker.audit.record_refusal(actor, reason, attributes=attributes)

    def _finish_login(self, session: LoginSession, login: asyncio.Future[bool]) -> None:
        """Go on with the handshake when a password has been checked."""
        machine = self._machine
        if login.cancelled():
            return
        # Looked at in any case: asyncio would log an error that nothing has asked for.
        error = login.exception()
        if machine.state is not ConnectionState.CHECKING_LOGIN:
            return
        if error is not None:
            logger.error("login not checked peer=%s", session.name, exc_info=error)
        try:
            answer = machine.finish_login(accepted=error is None and login.result())
        except AccessRefused as refusal:
            self._record_refusal(session, refusal)
            self._closing.fail(session, refusal)
        else:
            self._record_login(session)
            session.write(method_frame(0, answer))

    def _finish_renewal(self, session: LoginSession, renewal: asyncio.Future[str]) -> None:
        """Answer the client when its new secret has been checked."""
        machine = self._machine
        if renewal.cancelled():
            return
        failure = renewal.exception()
        if machine.state is not ConnectionState.OPEN or self._states.stage in LOST:
            return
        if failure is not None:
            logger.error("secret not checked peer=%s", session.name, exc_info=failure)
        refusal = FAILED_RENEWAL if failure is not None else renewal.result()
        try:
            answer = machine.finish_renewal(refusal)
        except AmqpError as error:
            self._closing.fail(session, error)
            return
        session.write(method_frame(0, answer))
        self.expiry.watch(session)
        steps = chain.from_iterable(map(end_refused_consumers, tuple(session.channels.values())))
        name = f"new secret of client {session.name!r}"
        Job(self._server.broker.turn, session.task_queue, steps, name).start()


def qos_reaches_consumers(client: bytes, presented: str) -> bool:
    """Return whether basic.qos without `global` also changes the consumers that run.

    Celery (through py-amqp) raises the limit of its running consumers this way, once for each task
    that waits for its time, unless the server is RabbitMQ. Every other client expects RabbitMQ's
    behaviour: consumers of one channel may have different limits.

    Args:
        client: `product` of the client's properties.
        presented: `product` that the server has sent to it.
    """
    return client == PY_AMQP and presented != RABBITMQ
