"""Identity of the queue that a log belongs to."""

from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """One incarnation of one queue; deleting and declaring a queue makes another incarnation.

    Attributes:
        vhost: Name of the virtual host, at most 255 bytes of UTF-8.
        queue: Name of the queue, at most 255 bytes of UTF-8.
        incarnation: Identifier of this incarnation, never used again.
        salt: Number that marks the chunks of this log: the first four bytes of the UUID.
    """

    vhost: str
    queue: str
    incarnation: UUID
    salt: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compute what recovery asks for again and again."""
        salt = int.from_bytes(self.incarnation.bytes[:4], "little")
        object.__setattr__(self, "salt", salt)
