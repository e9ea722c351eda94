"""Limits of one virtual host, and their document on the disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from metadata.document import Document

if TYPE_CHECKING:
    from collections.abc import Mapping

VHOST_LIMITS: Final = "vhost_limits"
"""Kind of the documents; a virtual host has one or none."""
DOCUMENT_NAME: Final = "limits"
MAX_CONNECTIONS: Final = "max-connections"
MAX_QUEUES: Final = "max-queues"
LIMIT_NAMES: Final = (MAX_CONNECTIONS, MAX_QUEUES)
NO_LIMIT: Final = -1
LIMIT_MAX: Final = 2**31 - 1


class InvalidLimitError(ValueError):
    """A limit that does not exist, or a value that it cannot have."""


@dataclass(frozen=True, slots=True)
class VhostLimits:
    """Limits of one virtual host.

    Attributes:
        max_connections: Open connections; 0 admits no client, `NO_LIMIT` any number.
        max_queues: Queues, with exclusive ones; existing queues stay above it.
    """

    max_connections: int = NO_LIMIT
    max_queues: int = NO_LIMIT

    @classmethod
    def of(cls, values: Mapping[str, object]) -> VhostLimits:
        """Return limits by their names in RabbitMQ; what is missing is no limit.

        Raises:
            InvalidLimitError: There is no such limit, or it cannot have this value.
        """
        checked = {name: checked_limit(name, value) for name, value in values.items()}
        return cls(
            checked.get(MAX_CONNECTIONS, NO_LIMIT),
            checked.get(MAX_QUEUES, NO_LIMIT),
        )

    @property
    def values(self) -> dict[str, int]:
        """The limits that are set, by their names in RabbitMQ."""
        pairs = ((MAX_CONNECTIONS, self.max_connections), (MAX_QUEUES, self.max_queues))
        return {name: value for name, value in pairs if value != NO_LIMIT}

    def document(self, vhost: str) -> Document:
        """Return the document that stores them."""
        return Document(VHOST_LIMITS, vhost, DOCUMENT_NAME, self.values)


def checked_limit(name: str, value: object) -> int:
    """Return a limit of a virtual host.

    Raises:
        InvalidLimitError: There is no such limit, or it cannot have this value.
    """
    if name not in LIMIT_NAMES:
        raise InvalidLimitError(f"a vhost has no limit '{name}': known are {_known(LIMIT_NAMES)}")
    # Not isinstance: in Python true is an int.
    if type(value) is not int or not NO_LIMIT <= value <= LIMIT_MAX:
        raise InvalidLimitError(
            f"{name} must be a whole number from -1 to {LIMIT_MAX}; -1 is no limit"
        )
    return value


def is_reached(limit: int, count: int) -> bool:
    """Return whether there may not be one more.

    Args:
        limit: Most that are allowed, or `NO_LIMIT`.
        count: How many there are.
    """
    return limit != NO_LIMIT and count >= limit


def _known(names: tuple[str, ...]) -> str:
    return " and ".join(names)
