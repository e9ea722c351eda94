"""Identity of the queue that a log belongs to."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """One incarnation of one queue; deleting and declaring a queue makes another incarnation.

    Attributes:
        vhost: Name of the virtual host, at most 255 bytes of UTF-8.
        queue: Name of the queue, at most 255 bytes of UTF-8.
        incarnation: Identifier of this incarnation, never used again.
    """

    vhost: str
    queue: str
    incarnation: UUID

    @property
    def salt(self) -> int:
        """Return the number that marks the chunks of this log: the first four bytes of the UUID."""
        return int.from_bytes(self.incarnation.bytes[:4], "little")
