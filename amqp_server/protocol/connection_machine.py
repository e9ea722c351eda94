"""The life of a connection as the specification has it, without a socket.

    AWAITING_START_OK --start-ok--> AWAITING_TUNE_OK --tune-ok--> AWAITING_OPEN --open--> OPEN
                                                                                           |
                CLOSED <--close-ok-- CLOSING <--(we sent connection.close)-----------------+

Methods of class connection go in, the answers come out; what was negotiated stands in the
attributes. Which users and virtual hosts there are is asked of the caller.

Source: AMQP 0-9-1 specification, section 1.4.2 (connection); texts as in RabbitMQ.
"""

from __future__ import annotations

from enum import Enum, auto
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from amqp_server.protocol.errors import (
    AccessRefused,
    ChannelError,
    CommandInvalid,
    FieldSyntaxError,
    FrameError,
    NotAllowed,
)
from amqp_server.protocol.field_values import FieldValue
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

if TYPE_CHECKING:
    from amqp_server.protocol.field_values import Table
    from amqp_server.protocol.methods import Method

MECHANISMS = b"PLAIN AMQPLAIN"


class ConnectionState(Enum):
    """Where a connection stands."""

    AWAITING_START_OK = auto()
    AWAITING_TUNE_OK = auto()
    AWAITING_OPEN = auto()
    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()


_RABBITMQ_STATES = {
    ConnectionState.AWAITING_START_OK: "starting",
    ConnectionState.AWAITING_TUNE_OK: "tuning",
    ConnectionState.AWAITING_OPEN: "opening",
    ConnectionState.OPEN: "running",
}
"""Names that clients' logs know from RabbitMQ's replies."""


KEPT_PROPERTIES = frozenset({"capabilities", "connection_name", "platform", "product", "version"})
"""Properties of a client that are kept while it is connected."""
PROPERTY_BYTES_MAX = 1024
"""Octets of a property's text; a longer one is not kept."""
CAPABILITIES_MAX = 64
"""Capabilities that are kept."""


class Authenticator(Protocol):
    """Decides who may come in."""

    def may_login(self, user: str, password: bytes) -> bool:
        """Return whether this client may use this name and password from where it is."""

    def has_vhost(self, name: str) -> bool:
        """Return whether there is such a virtual host."""

    def secret_renewed(self, user: str, reason: str) -> None:
        """Take note that a client gave a new secret, which changes nothing, and why."""


class ConnectionMachine:
    """The handshake and the end of one connection.

    Args:
        authenticator: Knows users and virtual hosts.
        server_properties: What `connection.start` tells of us.
        frame_max: Largest frame we take, in octets.
        frame_min: Least frame_max that we accept.
        channel_max: Highest channel number we take.
        heartbeat_seconds: Interval that we propose; 0 proposes none.

    Attributes:
        user: Who logged in; empty before.
        vhost: What was opened; empty before.
        client_properties: What the client said of itself, as far as `KEPT_PROPERTIES` has it.
        frame_max: Negotiated, once open.
        channel_max: Negotiated, once open.
        heartbeat_seconds: Negotiated, once open; 0 is none.
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
    ) -> None:
        """Wait for start-ok; `greeting` is to be sent first."""
        self.state = ConnectionState.AWAITING_START_OK
        self.user = ""
        self.vhost = ""
        self.client_properties: Table = {}
        self.frame_max = frame_max
        self.channel_max = channel_max
        self.heartbeat_seconds = heartbeat_seconds
        self._frame_min = frame_min
        self._authenticator = authenticator
        self._server_properties = server_properties

    @property
    def greeting(self) -> ConnectionStart:
        """The first method, in answer to the protocol header."""
        return ConnectionStart(
            version_major=0,
            version_minor=9,
            server_properties=self._server_properties,
            mechanisms=MECHANISMS,
            locales=b"en_US",
        )

    @property
    def client_product(self) -> bytes:
        """What the client says it is; empty if it does not say."""
        product = self.client_properties.get("product")
        return product.value if product is not None and isinstance(product.value, bytes) else b""

    def capability(self, name: str) -> bool:
        """Return whether the client said that it has a capability."""
        capabilities = self.client_properties.get("capabilities")
        if capabilities is None or not isinstance(capabilities.value, dict):
            return False
        value = capabilities.value.get(name)
        return value is not None and value.value is True

    def receive(self, method: Method) -> Method | None:
        """Take a method of class connection and return the answer, if there is one.

        Raises:
            AccessRefused: The login is wrong.
            AmqpError: The client may not do that, or not now.
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
        """Return the error for a method on channel 0 that may not come now, or never."""
        state = _RABBITMQ_STATES.get(self.state, "closed")
        return ChannelError(f"unexpected method in connection state {state}", class_id, method_id)

    def close(self) -> None:
        """Note that connection.close was sent."""
        self.state = ConnectionState.CLOSING
        self.client_properties = {}

    def _start_ok(self, method: ConnectionStartOk) -> ConnectionTune:
        self.client_properties = _kept_properties(method.client_properties)
        password: bytes | None
        if method.mechanism == "PLAIN":
            user, password = _plain(method.response)
        elif method.mechanism == "AMQPLAIN":
            user, password = _amqplain(method.response)
        else:
            raise CommandInvalid(f"unknown authentication mechanism '{method.mechanism}'")
        if password is None or not self._authenticator.may_login(user, password):
            raise AccessRefused(
                f"Login was refused using authentication mechanism {method.mechanism}. "
                "For details see the broker logfile."
            )
        self.user = user
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
        if not self._authenticator.has_vhost(method.virtual_host):
            raise NotAllowed(f"vhost {method.virtual_host} not found")
        self.vhost = method.virtual_host
        self.state = ConnectionState.OPEN
        return ConnectionOpenOk()

    def _update_secret(self, method: ConnectionUpdateSecret) -> ConnectionUpdateSecretOk:
        # RabbitMQ asks only back ends of tokens, which expire. An internal user's password holds
        # for the login; clients renew whatever they hold, and take a refusal for the end.
        self._authenticator.secret_renewed(self.user, method.reason)
        return ConnectionUpdateSecretOk()


def _kept_properties(properties: Table) -> Table:
    """Return what is kept of a client's properties: a client may send thousands, of any size."""
    kept = {}
    for name in KEPT_PROPERTIES & properties.keys():
        value = properties[name]
        if isinstance(value.value, dict):
            flags = ((key, each) for key, each in value.value.items() if each.kind == b"t")
            kept[name] = FieldValue(value.kind, dict(islice(flags, CAPABILITIES_MAX)))
        elif isinstance(value.value, bytes) and len(value.value) <= PROPERTY_BYTES_MAX:
            kept[name] = value
    return kept


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
        # An identity to act as stands before the first NUL. To ignore it would log the client in as
        # another user than it asked for; RabbitMQ takes none either.
        raise FieldSyntaxError("malformed PLAIN response: expected NUL user NUL password")
    return parts[1].decode("utf-8", "surrogateescape"), parts[2]


def _amqplain(response: bytes) -> tuple[str, bytes | None]:
    table = decode_table_body(response)
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if login is None or password is None or not isinstance(login.value, bytes):
        raise FieldSyntaxError("malformed AMQPLAIN response: expected LOGIN and PASSWORD")
    # As in RabbitMQ: what is no string is a wrong password.
    secret = password.value if isinstance(password.value, bytes) else None
    return login.value.decode("utf-8", "surrogateescape"), secret
