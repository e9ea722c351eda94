"""Address of a broker, with the login."""

from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """The parts of `amqp://USER:PASSWORD@HOST:PORT/VHOST`.

    Attributes:
        host: Host name or address.
        port: TCP port.
        user: User name for PLAIN; guest by default.
        password: Password of the user; guest by default.
        vhost: Virtual host, percent-decoded; "/" by default.
    """

    host: str
    port: int
    user: str
    password: str
    vhost: str

    def at(self, port: int) -> Self:
        """Return the same address at another port."""
        return replace(self, port=port)

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parse a URL.

        Raises:
            ValueError: The scheme is not `amqp`, or the port is not a number.
        """
        parts = urlsplit(url)
        if parts.scheme != "amqp":
            raise ValueError(f"the URL of a broker starts with amqp://, not {parts.scheme!r}")
        return cls(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 5672,
            user=unquote(parts.username or "guest"),
            password=unquote(parts.password or "guest"),
            vhost=unquote(parts.path[1:]) or "/",
        )
