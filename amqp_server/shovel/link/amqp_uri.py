"""The address of a broker as a URI, with the parameters that RabbitMQ gives it.

    amqp://user:password@host:5672/vhost?heartbeat=10

Source: RabbitMQ URI specification and its query parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from amqp_server.shovel.link.errors import UriError

DEFAULT_VHOST: Final = "/"
_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_SHORT_STRING_BYTES_MAX: Final = 255
_CONNECTION_TIMEOUT_MS: Final = 60_000
_SHOWN_BYTES_MAX: Final = 4096
"""Longest address without its password: two of them are in one report of a shovel."""
_MECHANISMS: Final = {"plain": "PLAIN", "external": "EXTERNAL"}
_VERIFY: Final = {"verify_peer": True, "verify_none": False}
_IGNORED: Final = frozenset(
    ("depth", "fail_if_no_peer_cert", "frame_max", "password", "versions", "hostname_verification")
)
"""Parameters that RabbitMQ knows and that have no effect here."""
_KNOWN: Final = frozenset(
    (
        "heartbeat",
        "channel_max",
        "connection_timeout",
        "cacertfile",
        "certfile",
        "keyfile",
        "verify",
        "server_name_indication",
        "auth_mechanism",
    )
)
_ChoiceT = TypeVar("_ChoiceT")


@dataclass(frozen=True, slots=True)
class AmqpUri:
    """Where a broker is, and how to log in.

    Attributes:
        is_tls: Whether the scheme is `amqps`.
        user: User name; None if the address has none.
        password: Password; None if the address has none.
        host: Name or address; empty for the broker that runs the shovel.
        port: TCP port.
        vhost: Name of the virtual host; None if the address has none.
        heartbeat: Seconds between heartbeats; None: as the peer proposes; 0: none.
        channel_max: Most channels; 0: as the peer proposes.
        connection_timeout_seconds: Time for connecting and logging in.
        cacertfile: File with the certificates of those who may sign the peer's; empty: those of the
            system.
        certfile: File with the certificate of this client; empty: none.
        keyfile: File with its key; empty: it is in `certfile`.
        verifies_peer: Whether the certificate of the peer is checked.
        server_name: Name that the certificate of the peer must have; empty: that of the host.
        mechanism: `PLAIN` or `EXTERNAL`.
        without_password: The address as it may be shown.
        without_login: The same without the user, as RabbitMQ shows it.
    """

    is_tls: bool
    user: str | None
    password: str | None
    host: str
    port: int
    vhost: str | None
    heartbeat: int | None
    channel_max: int
    connection_timeout_seconds: float
    cacertfile: str
    certfile: str
    keyfile: str
    verifies_peer: bool
    server_name: str
    mechanism: str
    without_password: str
    without_login: str

    @property
    def is_local(self) -> bool:
        """Whether it names no host: the broker that runs the shovel."""
        return not self.host

    @classmethod
    def parse(cls, text: str) -> AmqpUri:
        """Return the address that a text names.

        Raises:
            UriError: It is none; the message says why, without the password.
        """
        if any(character.isspace() or not character.isprintable() for character in text):
            raise UriError("an address has no spaces or control characters")
        try:
            parts = urlsplit(text)
        except ValueError:
            # Its text may have the password.
            raise UriError("not an address: write amqp://user:password@host:5672/vhost") from None
        try:
            port = parts.port
        except ValueError:
            raise UriError(
                "not an address: the port is no number up to 65535, or a password has a character "
                "that is not written as % and two digits"
            ) from None
        host = parts.hostname or ""
        if parts.scheme not in _PORTS:
            raise UriError(f"the scheme is '{parts.scheme}', not amqp or amqps")
        if parts.fragment:
            raise UriError("an address has no part behind '#'")
        if port == 0:
            raise UriError("the port is 0")
        if not host and (port is not None or parts.username is not None):
            raise UriError("there is a user or a port, and no host")
        query = _Query(parts.query)
        where = _place(host, port, parts.path) + query.shown
        who = f"{parts.username}@" if parts.username else ""
        shown = f"{parts.scheme}://{who}{where}"
        verifies = query.choice("verify", _VERIFY)
        found = cls(
            is_tls=parts.scheme == "amqps",
            user=_decoded("user", parts.username),
            password=_decoded("password", parts.password),
            host=_decoded("host", host) or "",
            port=port or _PORTS[parts.scheme],
            vhost=_vhost(parts.path),
            heartbeat=query.number("heartbeat", 65535),
            channel_max=query.number("channel_max", 65535) or 0,
            connection_timeout_seconds=(
                query.number("connection_timeout", 3_600_000) or _CONNECTION_TIMEOUT_MS
            )
            / 1000,
            cacertfile=query.text("cacertfile"),
            certfile=query.text("certfile"),
            keyfile=query.text("keyfile"),
            verifies_peer=True if verifies is None else verifies,
            server_name=query.text("server_name_indication"),
            mechanism=query.choice("auth_mechanism", _MECHANISMS) or "PLAIN",
            without_password=shown,
            without_login=f"{parts.scheme}://{where}",
        )
        if len(shown.encode()) > _SHOWN_BYTES_MAX:
            reason = f"without the password it has more than {_SHOWN_BYTES_MAX} bytes"
            raise UriError(reason)
        return found


class _Query:
    """The parameters behind the question mark."""

    def __init__(self, text: str) -> None:
        try:
            pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text))
        except ValueError:
            raise UriError("the parameters behind '?' are malformed") from None
        self._pairs = pairs
        self._values = dict(pairs)
        for name in self._values:
            if name not in _IGNORED and name not in _KNOWN:
                raise UriError(f"unknown parameter '{name}'")

    @property
    def shown(self) -> str:
        """The parameters with the question mark, but not the password of a key."""
        kept = [(name, value) for name, value in self._pairs if name != "password"]
        text = "&".join(f"{quote(name)}={quote(value)}" for name, value in kept)
        return f"?{text}" if text else ""

    def text(self, name: str) -> str:
        return self._values.get(name, "")

    def number(self, name: str, most: int) -> int | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit()) or int(value[:10]) > most or len(value) > 10:
            raise UriError(f"'{name}' must be a whole number from 0 to {most}")
        return int(value)

    def choice(self, name: str, choices: dict[str, _ChoiceT]) -> _ChoiceT | None:
        value = self._values.get(name)
        if value is None:
            return None
        if value not in choices:
            raise UriError(f"'{name}' must be one of {', '.join(choices)}")
        return choices[value]


def _decoded(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        found = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise UriError(f"the {name} is not UTF-8") from None
    if "\0" in found:
        raise UriError(f"the {name} contains a zero octet")
    return found


def _vhost(path: str) -> str | None:
    """Return the virtual host of a path: one segment, None if there is none."""
    if path == "":
        return None
    if "/" in path[1:]:
        raise UriError("the virtual host has a '/': write it as %2F")
    name = _decoded("virtual host", path[1:]) or ""
    if len(name.encode()) > _SHORT_STRING_BYTES_MAX:
        raise UriError(f"the virtual host has more than {_SHORT_STRING_BYTES_MAX} bytes")
    return name


def _place(host: str, port: int | None, path: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown + (f":{port}" if port else "") + path
