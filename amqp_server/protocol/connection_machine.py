"""State machine of a connection, without a socket.

    AWAITING_START_OK --start-ok--> AWAITING_TUNE_OK --tune-ok--> AWAITING_OPEN --open--> OPEN
        |                  ^                                                              |
        +--> CHECKING_LOGIN+                                                              |
                CLOSED <--close-ok-- CLOSING <--(we sent connection.close)----------------+

It takes methods of class connection and returns the replies; its attributes have the negotiated
values. An `Authenticator` decides who may log in, and to which virtual host. If it cannot decide at
once, the caller awaits `login` and then calls `finish_login`.

Source: AMQP 0-9-1 specification, section 1.4.2 (connection); texts as in RabbitMQ.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from amqp_server.protocol.client_properties import kept_properties
from amqp_server.protocol.errors import (
    AccessRefused,
    ChannelError,
    CommandInvalid,
    FieldSyntaxError,
    FrameError,
    NotAllowed,
)
from amqp_server.protocol.framing import (
    BrokenFrame,
    ContentBody,
    ContentHeader,
    HeartbeatFrame,
    MethodFrame,
)
from amqp_server.protocol.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from amqp_server.protocol.tables import decode_table_body
from amqp_server.protocol.unexpected_frames import failed_method, unexpected_frame

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.protocol.field_values import Table
    from amqp_server.protocol.framing import Event
    from amqp_server.protocol.methods import Method

MECHANISMS = b"PLAIN AMQPLAIN"
EXTERNAL = b" EXTERNAL"


class ConnectionState(Enum):
    """State of a connection."""

    AWAITING_START_OK = auto()
    CHECKING_LOGIN = auto()
    AWAITING_TUNE_OK = auto()
    AWAITING_OPEN = auto()
    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()


_OPEN = ConnectionState.OPEN
"""Every event is compared with it, and looking up a member of an `Enum` is slow."""

_CONTENT_FRAMES = (ContentHeader, ContentBody)
_OF_CONNECTION = (HeartbeatFrame, BrokenFrame)
"""Events that are the connection's, whatever channel they name."""
_RABBITMQ_STATES = {
    ConnectionState.AWAITING_START_OK: "starting",
    ConnectionState.CHECKING_LOGIN: "securing",
    ConnectionState.AWAITING_TUNE_OK: "tuning",
    ConnectionState.AWAITING_OPEN: "opening",
    ConnectionState.OPEN: "running",
}
"""State names in RabbitMQ's replies, which clients' logs contain."""


SHOWN_BYTES_MAX = 1024
"""Longest product or connection name in octets that log lines and lists show; a longer one counts
as none there."""


class Authenticator(Protocol):
    """Decides which clients may log in, and which virtual hosts they may open.

    Attributes:
        refusal: Why it has refused the last login; not for the client.
    """

    refusal: str

    @property
    def user(self) -> str:
        """User whose login it has accepted; may be another name than the client gave."""

    def login(self, user: str, password: bytes) -> bool | Awaitable[bool]:
        """Return whether the client may log in with this name and password from its address."""

    def login_by_certificate(self, user: str) -> bool | Awaitable[bool]:
        """Return whether the client may log in as the user whom its certificate names."""

    def check_vhost(self, user: str, name: str) -> None:
        """Check that a user may open a virtual host.

        Raises:
            AmqpError: The virtual host does not exist, or the user may not open it.
        """

    def renew(self, secret: bytes, vhost: str, reason: str) -> Awaitable[str] | None:
        """Take a new secret of the user who has logged in.

        Args:
            secret: The new password or token.
            vhost: Virtual host that is open.
            reason: Reason that the client gives.

        Returns:
            Why it is refused, for the client, empty if it is not; None if it needs no check.
        """


class ConnectionMachine:
    """The handshake and the close of one connection.

    Args:
        authenticator: Checks users and virtual hosts.
        server_properties: Server properties for `connection.start`.
        frame_max: Largest frame that the server accepts, in octets.
        frame_min: Smallest frame_max that the server accepts from a client.
        channel_max: Highest channel number that the server accepts.
        heartbeat_seconds: Proposed interval; 0 proposes none.
        certificate_user: User whom the client's certificate names, empty if it names none; None if
            logins by certificate (EXTERNAL) are not offered.

    Attributes:
        login: Decision about a login; None unless a decision takes time.
        renewal: Decision about a new secret; None unless a decision takes time.
        user: Name of the user who logged in; empty before.
        claimed_user: User name of the last login, refused or not; empty before.
        mechanism: Authentication mechanism of that login.
        vhost: Name of the open virtual host; empty before.
        client_properties: The client's properties, within a bound of memory.
        frame_max: Negotiated value, once open.
        channel_max: Negotiated value, once open.
        heartbeat_seconds: Negotiated value, once open; 0 is none.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        server_properties: Table,
        *,
        frame_max: int,
        frame_min: int,
        channel_max: int,
        heartbeat_seconds: int,
        certificate_user: str | None = None,
    ) -> None:
        """Create the machine; send `greeting` first, then pass in start-ok."""
        self.state = ConnectionState.AWAITING_START_OK
        self.login: Awaitable[bool] | None = None
        self.renewal: Awaitable[str] | None = None
        self.user = ""
        self.claimed_user = ""
        self.mechanism = ""
        self.vhost = ""
        self.client_properties: Table = {}
        self.frame_max = frame_max
        self.channel_max = channel_max
        self.heartbeat_seconds = heartbeat_seconds
        self._frame_min = frame_min
        self._authenticator = authenticator
        self._server_properties = server_properties
        self._certificate_user = certificate_user

    @property
    def refusal(self) -> str:
        """Why the last login was refused; not for the client."""
        return self._authenticator.refusal

    @property
    def greeting(self) -> ConnectionStart:
        """The first method, sent in reply to the protocol header."""
        return ConnectionStart(
            version_major=0,
            version_minor=9,
            server_properties=self._server_properties,
            mechanisms=MECHANISMS if self._certificate_user is None else MECHANISMS + EXTERNAL,
            locales=b"en_US",
        )

    @property
    def client_product(self) -> bytes:
        """The client's `product` property; empty if it sent none, or a very long one."""
        return self._text_property("product")

    @property
    def client_name(self) -> str:
        """The client's `connection_name` property; empty if it sent none, or a very long one."""
        return self._text_property("connection_name").decode("utf-8", "replace")

    def _text_property(self, name: str) -> bytes:
        found = self.client_properties.get(name)
        value = b"" if found is None else found.value
        return value if isinstance(value, bytes) and len(value) <= SHOWN_BYTES_MAX else b""

    def capability(self, name: str) -> bool:
        """Return whether the client has declared a capability."""
        capabilities = self.client_properties.get("capabilities")
        if capabilities is None or not isinstance(capabilities.value, dict):
            return False
        value = capabilities.value.get(name)
        return value is not None and value.value is True

    def admits(self, event: Event) -> bool:
        """Return whether to handle an event in the present state; False: it is ignored.

        Events on channel 0 are admitted if they are methods.

        Raises:
            FrameError: The octets are no frame.
            HardError: The event may not come in this state, or not on channel 0.
        """
        is_of_connection = isinstance(event, _OF_CONNECTION)
        if self.state is _OPEN and event.channel and not is_of_connection:
            return True
        if self.state is ConnectionState.CLOSED:
            return False
        if isinstance(event, MethodFrame) and not event.channel:
            return True
        if isinstance(event, BrokenFrame):
            raise FrameError(event.text)
        if self.state is ConnectionState.CLOSING:
            return False
        if isinstance(event, HeartbeatFrame) and not event.channel:
            return False
        if is_of_connection or self.state is not _OPEN or isinstance(event, _CONTENT_FRAMES):
            raise unexpected_frame(event)
        raise self.unexpected(*failed_method(event))

    def receive(self, method: Method) -> Method | None:
        """Process a method of class connection; return the reply, if there is one.

        Raises:
            AccessRefused: User name or password is wrong.
            AmqpError: The method is invalid or not allowed in the present state.
        """
        if not method.is_utf8:
            raise FrameError("Malformed UTF-8 in shortstr")
        match method, self.state:
            case ConnectionStartOk(), ConnectionState.AWAITING_START_OK:
                return self._start_ok(method)
            case ConnectionTuneOk(), ConnectionState.AWAITING_TUNE_OK:
                self._tune_ok(method)
                return None
            case ConnectionOpen(), ConnectionState.AWAITING_OPEN:
                return self._open(method)
            case ConnectionUpdateSecret(), ConnectionState.OPEN:
                return self._update_secret(method)
            case ConnectionClose(), _:
                self.state = ConnectionState.CLOSED
                return ConnectionCloseOk()
            case ConnectionCloseOk(), ConnectionState.CLOSING:
                self.state = ConnectionState.CLOSED
                return None
        raise self.unexpected(method.class_id, method.method_id)

    def unexpected(self, class_id: int, method_id: int) -> ChannelError:
        """Return the error for a method on channel 0 that is not allowed in the present state."""
        state = _RABBITMQ_STATES.get(self.state, "closed")
        return ChannelError(f"unexpected method in connection state {state}", class_id, method_id)

    def close(self) -> None:
        """Record that connection.close was sent."""
        self.state = ConnectionState.CLOSING
        self.client_properties = {}

    def _start_ok(self, method: ConnectionStartOk) -> ConnectionTune | None:
        self.client_properties = kept_properties(method.client_properties)
        password: bytes | None
        if method.mechanism == "EXTERNAL" and self._certificate_user is not None:
            # As in RabbitMQ, the response does not count: it could only name another user.
            self.user = self.claimed_user = self._certificate_user
            self.mechanism = method.mechanism
            return self._decide(self._authenticator.login_by_certificate(self.user))
        if method.mechanism == "PLAIN":
            user, password = _plain(method.response)
        elif method.mechanism == "AMQPLAIN":
            user, password = _amqplain(method.response)
        else:
            raise CommandInvalid(f"unknown authentication mechanism '{method.mechanism}'")
        self.user = self.claimed_user = user
        self.mechanism = method.mechanism
        # As in RabbitMQ, a password that is no string counts as wrong.
        return self._decide(self._authenticator.login(user, password or b""))

    def _decide(self, decision: bool | Awaitable[bool]) -> ConnectionTune | None:
        if isinstance(decision, bool):
            return self.finish_login(accepted=decision)
        self.login = decision
        self.state = ConnectionState.CHECKING_LOGIN
        return None

    def finish_login(self, *, accepted: bool) -> ConnectionTune:
        """Go on with the handshake when it is known whether the client may log in.

        Raises:
            AccessRefused: It may not.
        """
        self.login = None
        if not accepted:
            self.user = ""
            raise AccessRefused(
                f"Login was refused using authentication mechanism {self.mechanism}. "
                "For details see the broker logfile."
            )
        self.user = self._authenticator.user
        self.state = ConnectionState.AWAITING_TUNE_OK
        return ConnectionTune(
            channel_max=self.channel_max, frame_max=self.frame_max, heartbeat=self.heartbeat_seconds
        )

    def _tune_ok(self, method: ConnectionTuneOk) -> None:
        self.frame_max = _negotiate("frame_max", method.frame_max, self._frame_min, self.frame_max)
        self.channel_max = _negotiate("channel_max", method.channel_max, 1, self.channel_max)
        self.heartbeat_seconds = method.heartbeat
        self.state = ConnectionState.AWAITING_OPEN

    def _open(self, method: ConnectionOpen) -> ConnectionOpenOk:
        self._authenticator.check_vhost(self.user, method.virtual_host)
        self.vhost = method.virtual_host
        self.state = ConnectionState.OPEN
        return ConnectionOpenOk()

    def _update_secret(self, method: ConnectionUpdateSecret) -> ConnectionUpdateSecretOk | None:
        # As in RabbitMQ, it counts only where secrets expire. A password is checked only at the
        # login. Accept it: clients renew any secret, and treat a refusal as fatal.
        self.renewal = self._authenticator.renew(method.new_secret, self.vhost, method.reason)
        return ConnectionUpdateSecretOk() if self.renewal is None else None

    def finish_renewal(self, refusal: str) -> ConnectionUpdateSecretOk:
        """Answer a new secret when it has been checked.

        Args:
            refusal: Why it is refused; empty if it is not.

        Raises:
            NotAllowed: It is refused.
        """
        self.renewal = None
        if refusal:
            raise NotAllowed(refusal, *ConnectionUpdateSecret.ids)
        return ConnectionUpdateSecretOk()


def _negotiate(name: str, asked: int, least: int, most: int) -> int:
    if asked == 0 or asked > most:
        shown = "0 (no limit)" if (name, asked) == ("channel_max", 0) else asked
        raise NotAllowed(
            f"negotiated {name} = {shown} is higher than the maximum allowed value ({most})"
        )
    if asked < least:
        raise NotAllowed(
            f"negotiated {name} = {asked} is lower than the minimum allowed value ({least})"
        )
    return asked


def _plain(response: bytes) -> tuple[str, bytes]:
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        # The first field is an identity to act as. Ignoring it would log the client in as
        # another user than it asked for; RabbitMQ refuses it too.
        raise FieldSyntaxError("malformed PLAIN response: expected NUL user NUL password")
    return parts[1].decode("utf-8", "surrogateescape"), parts[2]


def _amqplain(response: bytes) -> tuple[str, bytes | None]:
    table = decode_table_body(response)
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if login is None or password is None or not isinstance(login.value, bytes):
        raise FieldSyntaxError("malformed AMQPLAIN response: expected LOGIN and PASSWORD")
    secret = password.value if isinstance(password.value, bytes) else None
    return login.value.decode("utf-8", "surrogateescape"), secret
