"""The section `users`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.access.access_control import USERS_MAX
from amqp_server.access.passwords import MD5, NO_PASSWORD, SHA256, PasswordHash
from amqp_server.access.user import LIMIT_NAMES, InvalidUserError, User

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.access.access_control import AccessControl
    from amqp_server.definitions_file.entry import Entry
    from amqp_server.definitions_file.import_changes import ImportChanges
    from amqp_server.definitions_file.import_plan import ImportPlan

_SHA256_SINCE: Final = (3, 6)
"""Version of RabbitMQ whose password hashes are SHA-256 if the file does not say what they are."""


class UsersPart:
    """Users with password hashes, tags and limits; those that exist are overwritten.

    Args:
        access: Users and permissions of the server.
    """

    section = "users"

    def __init__(self, access: AccessControl) -> None:
        self._access = access

    def plan(self, entry: Entry, plan: ImportPlan) -> None:
        """Check a user; see `Part`."""
        name = entry.short_text("name", may_be_empty=False)
        if not plan.is_first(entry, (name,)):
            return
        user = User(name, _password(entry, plan.rabbit_version), _tags(entry), _limits(entry))
        try:
            user.check()
        except InvalidUserError as error:
            raise entry.error(error) from error
        existing = self._access.users.get(name)
        step = partial(_save, self._access, user)
        if existing is None:
            plan.count_new(entry, "the server", len(self._access.users), USERS_MAX)
            plan.create(entry, step)
        elif existing == user:
            plan.equal(entry)
        else:
            plan.change(entry, step)

    def export(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the users; none in a file of one virtual host. See `Part`."""
        if vhost is None:
            for user in list(self._access.users.values()):
                yield {
                    "name": user.name,
                    "password_hash": user.password.text,
                    "hashing_algorithm": user.password.algorithm,
                    "tags": list(user.tags),
                    "limits": dict(user.limits),
                }


def _password(entry: Entry, rabbit_version: str) -> PasswordHash:
    if "password" in entry.fields:
        raise entry.error("'password' must be a hash: the program that reads the file makes it")
    text = entry.text("password_hash", "")
    if not text and "hashing_algorithm" not in entry.fields:
        return NO_PASSWORD
    return PasswordHash(entry.text("hashing_algorithm", _algorithm(rabbit_version)), text)


def _algorithm(rabbit_version: str) -> str:
    parts = rabbit_version.split(".")[:2]
    if len(parts) == 2 and all(part.isdecimal() for part in parts):
        return MD5 if (int(parts[0]), int(parts[1])) < _SHA256_SINCE else SHA256
    return SHA256


def _tags(entry: Entry) -> tuple[str, ...]:
    tags = entry.fields.get("tags")
    if isinstance(tags, str):
        tags = [tag.strip() for tag in tags.split(",") if tag.strip()]
    if tags is None:
        return ()
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise entry.error("'tags' is neither a list of texts nor a text")
    return tuple(tags)


def _limits(entry: Entry) -> dict[str, int]:
    limits = entry.object("limits")
    if unknown := limits.keys() - set(LIMIT_NAMES):
        raise entry.error(f"'limits' has the unknown limit '{min(unknown)}'")
    return limits


def _save(access: AccessControl, user: User, changes: ImportChanges) -> None:
    changes.put(user.document())
    changes.on_saved.append(partial(access.take_user, user))
