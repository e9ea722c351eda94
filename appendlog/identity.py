"""Which queue a log belongs to."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """One incarnation of one queue; deleting and declaring again makes another.

    Attributes:
        vhost: Name of the virtual host, at most 255 bytes of UTF-8.
        queue: Name of the queue, at most 255 bytes of UTF-8.
        incarnation: Unique for ever.
    """

    vhost: str
    queue: str
    incarnation: UUID

    @property
    def salt(self) -> int:
        """Return the number that marks this log's chunks: the UUID's first four bytes."""
        return int.from_bytes(self.incarnation.bytes[:4], "little")
