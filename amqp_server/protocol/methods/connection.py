"""Methods of class connection (10): handshake, tuning, blocking and close."""

from dataclasses import field

from amqp_server.protocol.constants import ClassId
from amqp_server.protocol.methods.codec import (
    Bit,
    FieldTable,
    Long,
    LongStr,
    Method,
    Octet,
    Short,
    ShortStr,
    method,
)

_CLASS = ClassId.CONNECTION


@method("connection.start", _CLASS, 10)
class ConnectionStart(Method):
    """Server: introduce itself; `mechanisms` and `locales` are separated by spaces."""

    version_major: Octet = 0
    version_minor: Octet = 9
    server_properties: FieldTable = field(default_factory=dict)
    mechanisms: LongStr = b""
    locales: LongStr = b"en_US"


@method("connection.start-ok", _CLASS, 11)
class ConnectionStartOk(Method):
    """Client: choose a mechanism and send its first response."""

    client_properties: FieldTable = field(default_factory=dict)
    mechanism: ShortStr = ""
    response: LongStr = b""
    locale: ShortStr = "en_US"


@method("connection.secure", _CLASS, 20)
class ConnectionSecure(Method):
    """Server: request another round of the mechanism."""

    challenge: LongStr = b""


@method("connection.secure-ok", _CLASS, 21)
class ConnectionSecureOk(Method):
    """Client: answer a challenge."""

    response: LongStr = b""


@method("connection.tune", _CLASS, 30)
class ConnectionTune(Method):
    """Server: propose limits; `frame_max` in bytes, `heartbeat` in seconds, 0 for none."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@method("connection.tune-ok", _CLASS, 31)
class ConnectionTuneOk(Method):
    """Client: settle the limits; `frame_max` in bytes, `heartbeat` in seconds, 0 for none."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@method("connection.open", _CLASS, 40)
class ConnectionOpen(Method):
    """Client: open a virtual host; `capabilities` and `insist` mean nothing since 0-9-1."""

    virtual_host: ShortStr = "/"
    capabilities: ShortStr = ""
    insist: Bit = False


@method("connection.open-ok", _CLASS, 41)
class ConnectionOpenOk(Method):
    """Server: the connection is ready."""

    known_hosts: ShortStr = ""


@method("connection.close", _CLASS, 50)
class ConnectionClose(Method):
    """Either side: end the connection; class and method name the cause, 0 for none."""

    reply_code: Short = 0
    reply_text: ShortStr = ""
    class_id_: Short = 0
    method_id_: Short = 0


@method("connection.close-ok", _CLASS, 51)
class ConnectionCloseOk(Method):
    """Either side: the connection is closed."""


@method("connection.blocked", _CLASS, 60)
class ConnectionBlocked(Method):
    """Server: publishes of this connection are blocked, with the reason (RabbitMQ extension)."""

    reason: ShortStr = ""


@method("connection.unblocked", _CLASS, 61)
class ConnectionUnblocked(Method):
    """Server: publishes of this connection are not blocked any more (RabbitMQ extension)."""


@method("connection.update-secret", _CLASS, 70)
class ConnectionUpdateSecret(Method):
    """Client: replace the secret it logged in with (RabbitMQ extension)."""

    new_secret: LongStr = b""
    reason: ShortStr = ""


@method("connection.update-secret-ok", _CLASS, 71)
class ConnectionUpdateSecretOk(Method):
    """Server: the new secret is accepted (RabbitMQ extension)."""


CONNECTION_METHODS: tuple[type[Method], ...] = (
    ConnectionStart,
    ConnectionStartOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
