"""Permissions of a user in a virtual host: three patterns, and two more a topic exchange."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from amqp_server.access.patterns import InvalidPatternError, compiled
from metadata.document import Document

if TYPE_CHECKING:
    from collections.abc import Mapping

PERMISSIONS: Final = "permissions"
TOPIC_PERMISSIONS: Final = "topic_permissions"
TOPICS_PER_USER_MAX: Final = 1_000
"""Topic exchanges of one virtual host for which one user may have permissions."""


class InvalidPermissionError(ValueError):
    """A value that no permission can have."""


class Right(StrEnum):
    """Kind of access that a permission gives; the words of error texts."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Permissions:
    """The patterns of one user in one virtual host: names that each right is for.

    Attributes:
        configure: Names that may be declared and deleted.
        write: Names that may be published and bound to.
        read: Names that may be consumed, purged and bound from.
    """

    configure: str
    write: str
    read: str

    def check(self) -> None:
        """Check the patterns; takes up to 60 ms: call it in a worker.

        Raises:
            InvalidPermissionError: One of them is no pattern.
        """
        for right in Right:
            _check_pattern(right, getattr(self, right))

    def document(self, vhost: str, user: str) -> Document:
        """Return the document that stores the permissions."""
        body = {"configure": self.configure, "write": self.write, "read": self.read}
        return Document(PERMISSIONS, vhost, user, body)


@dataclass(frozen=True, slots=True)
class TopicPermissions:
    """The patterns of one user for the routing keys of one topic exchange.

    `{username}`, `{vhost}` and `{client_id}` in a pattern stand for what the connection has.

    Attributes:
        write: Keys that may be published.
        read: Keys that may be bound to a queue.
    """

    write: str
    read: str

    def check(self) -> None:
        """Check the patterns; takes up to 40 ms: call it in a worker.

        Raises:
            InvalidPermissionError: One of them is no pattern.
        """
        _check_pattern(Right.WRITE, self.write)
        _check_pattern(Right.READ, self.read)


FULL: Final = Permissions(".*", ".*", ".*")
"""All rights in a virtual host."""


def permissions_from(document: Document) -> Permissions:
    """Rebuild permissions from their document; the patterns are compiled when they are used.

    Raises:
        InvalidPermissionError: The document holds a value that no permission can have.
    """
    return Permissions(*(_text(document.body, right) for right in Right))


def topics_document(vhost: str, user: str, topics: Mapping[str, TopicPermissions]) -> Document:
    """Return the document that stores all topic permissions of a user in a virtual host."""
    body = {exchange: {"write": each.write, "read": each.read} for exchange, each in topics.items()}
    return Document(TOPIC_PERMISSIONS, vhost, user, {"exchanges": body})


def topics_from(document: Document) -> dict[str, TopicPermissions]:
    """Rebuild topic permissions, by exchange, from their document.

    Raises:
        InvalidPermissionError: The document holds a value that no permission can have.
    """
    exchanges = document.body.get("exchanges")
    if not isinstance(exchanges, dict) or len(exchanges) > TOPICS_PER_USER_MAX:
        raise InvalidPermissionError(
            f"'exchanges' must hold at most {TOPICS_PER_USER_MAX} exchanges"
        )
    found = {}
    for exchange, body in exchanges.items():
        if not isinstance(body, dict):
            raise InvalidPermissionError(f"'{exchange}' must hold 'write' and 'read'")
        found[exchange] = TopicPermissions(_text(body, "write"), _text(body, "read"))
    return found


def _check_pattern(right: Right, text: str) -> None:
    try:
        compiled(text)
    except InvalidPatternError as error:
        raise InvalidPermissionError(f"invalid {right} pattern: {error}") from error


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise InvalidPermissionError(f"'{name}' is {value!r}, expected a text")
    return value
