"""A binding: leads from an exchange, by a key and arguments, to a queue or another exchange."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from amqp_server.broker.exchange import Exchange
from amqp_server.protocol.strings import encode_shortstr
from amqp_server.protocol.tables import encode_table

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.tables import Table

    Destination: TypeAlias = "Queue | Exchange"


@dataclass(frozen=True, slots=True)
class BindingIdentity:
    """Values that identify a binding in its virtual host; arguments are compared as octets.

    `kind` is `queue` or `exchange`.
    """

    source: str
    kind: str
    destination: str
    routing_key: str
    arguments: bytes

    @property
    def document_name(self) -> str:
        """Name of the binding's metadata document: a hash of all values."""
        parts = (self.source, self.kind, self.destination, self.routing_key)
        # Each part includes its length: names may contain any octet, so no separator would do.
        octets = b"".join(encode_shortstr(part) for part in parts)
        return sha256(octets + self.arguments).hexdigest()[:32]


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One binding; compared by identity.

    Attributes:
        number: Place of the binding among those of its exchange, from 0, in the order of their
            creation. Restarts keep it. The number of a removed binding may be used again.
    """

    source: Exchange
    destination: Destination
    routing_key: str
    arguments: Table
    number: int = 0
    known_identity: InitVar[BindingIdentity | None] = None
    identity: BindingIdentity = field(init=False)

    def __post_init__(self, known_identity: BindingIdentity | None) -> None:
        """Compute the identity once: there may be thousands of arguments."""
        object.__setattr__(
            self,
            "identity",
            known_identity
            or binding_identity(self.source, self.destination, self.routing_key, self.arguments),
        )

    @property
    def is_saved(self) -> bool:
        """Whether the binding has a document on the disk: both of its ends survive a restart."""
        destination = self.destination
        survives = (
            destination.durable if isinstance(destination, Exchange) else destination.is_journaled
        )
        return self.source.durable and survives


def binding_identity(
    source: Exchange, destination: Destination, routing_key: str, arguments: Table
) -> BindingIdentity:
    """Return the values that identify a binding in its virtual host."""
    kind = "exchange" if isinstance(destination, Exchange) else "queue"
    return BindingIdentity(
        source.name, kind, destination.name, routing_key, encode_table(arguments)
    )
