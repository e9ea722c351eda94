"""A user, and its document on the disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from amqp_server.access.passwords import NO_PASSWORD, InvalidHashError, PasswordHash
from metadata.document import Document

if TYPE_CHECKING:
    from collections.abc import Mapping

USERS: Final = "users"
ACCESS: Final = "access"
FIRST_USER: Final = "first_user"
"""Kind and name of the document that records who was the first user."""
ADMINISTRATOR: Final = "administrator"
"""Tag of users who may do everything by HTTP and commands."""
NAME_BYTES_MAX: Final = 255
"""Longest name of a user in octets, as of every AMQP name."""
TAGS_MAX: Final = 64
TAG_BYTES_MAX: Final = 255
LIMIT_NAMES: Final = ("max-connections", "max-channels")
_DELETED: Final = "deleted"
_KINDS: Final = {"password_hash": str, "hashing_algorithm": str, "tags": list, "limits": dict}


class InvalidUserError(ValueError):
    """A value that no user can have."""


@dataclass(frozen=True, slots=True)
class User:
    """One user.

    Attributes:
        name: Name, 1 to `NAME_BYTES_MAX` octets.
        password: Hash of the password.
        tags: Tags, such as `administrator`; free texts are kept.
        limits: Limits by name, of `LIMIT_NAMES`; -1 is none.
    """

    name: str
    password: PasswordHash = NO_PASSWORD
    tags: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)

    def check(self) -> None:
        """Check all values.

        Raises:
            InvalidUserError: One of them is not allowed.
        """
        check_name(self.name)
        if len(self.tags) > TAGS_MAX:
            raise InvalidUserError(f"a user has at most {TAGS_MAX} tags, not {len(self.tags)}")
        for tag in self.tags:
            if not 0 < len(tag.encode("utf-8", "surrogatepass")) <= TAG_BYTES_MAX:
                raise InvalidUserError(f"a tag must have 1 to {TAG_BYTES_MAX} bytes")
        for name, value in self.limits.items():
            if name not in LIMIT_NAMES:
                raise InvalidUserError(
                    f"a user has no limit '{name}'; known: {_known(LIMIT_NAMES)}"
                )
            if type(value) is not int or value < -1:
                raise InvalidUserError(f"{name} must be a whole number from -1 on, -1 is no limit")
        try:
            self.password.check()
        except InvalidHashError as error:
            raise InvalidUserError(f"invalid password hash: {error}") from error

    def document(self) -> Document:
        """Return the document that stores the user."""
        return Document(
            USERS,
            "",
            self.name,
            {
                "password_hash": self.password.text,
                "hashing_algorithm": self.password.algorithm,
                "tags": list(self.tags),
                "limits": dict(self.limits),
            },
        )


def check_name(name: str) -> None:
    """Check the name of a user.

    Raises:
        InvalidUserError: It is empty, too long, or not UTF-8.
    """
    try:
        length = len(name.encode())
    except UnicodeEncodeError as cause:
        raise InvalidUserError("the name of a user must be UTF-8") from cause
    if not 0 < length <= NAME_BYTES_MAX:
        raise InvalidUserError(f"the name of a user must have 1 to {NAME_BYTES_MAX} bytes")


def deletion_note(name: str) -> Document:
    """Return the document of a user of whom only the permissions may be left."""
    return Document(USERS, "", name, {_DELETED: True})


def first_user_record(name: str) -> Document:
    """Return the document that records who was the first user; an empty name means no user."""
    return Document(ACCESS, "", FIRST_USER, {"name": name})


def is_deletion_note(document: Document) -> bool:
    """Return whether a document says that its user was deleted."""
    return document.body.get(_DELETED) is True


def user_from(document: Document) -> User:
    """Rebuild a user from its document.

    Raises:
        InvalidUserError: The document holds a value that no user can have.
    """
    body = document.body
    for name, kind in _KINDS.items():
        if type(body.get(name)) is not kind:
            raise InvalidUserError(f"'{name}' is {body.get(name)!r}, expected {kind.__name__}")
    if not all(isinstance(tag, str) for tag in body["tags"]):
        raise InvalidUserError("'tags' must hold texts only")
    password = PasswordHash(body["hashing_algorithm"], body["password_hash"])
    user = User(document.name, password, tuple(body["tags"]), body["limits"])
    user.check()
    return user


def _known(names: tuple[str, ...]) -> str:
    return ", ".join(names)
