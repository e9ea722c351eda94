"""The commands `users.*`: users of the server."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from amqp_server.access.errors import (
    AccessError,
    NoSuchUserError,
    NoSuchVhostError,
    TooManyUsersError,
    UserExistsError,
)
from amqp_server.access.passwords import SHA256, PasswordHash
from amqp_server.access.permissions import FULL, InvalidPermissionError
from amqp_server.access.user import ADMINISTRATOR, InvalidUserError, User
from amqp_server.control.logins import hash_password
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Command
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from amqp_server.access.access_control import AccessControl

logger = logging.getLogger("amqp_server.control.users")


async def add(
    access: AccessControl,
    name: str,
    password_hash: str,
    hashing_algorithm: str,
    tags: list[str],
) -> None:
    """Create a user without permissions; return when it is on the disk."""
    user = User(name, PasswordHash(hashing_algorithm, password_hash), texts("tags", tags))
    await done(access.add_user(user))
    logger.info("user added user=%r tags=%s", name, ",".join(user.tags))


async def set_one(
    access: AccessControl,
    name: str,
    tags: list[str],
    password: str | None = None,
    password_hash: str = "",
    hashing_algorithm: str = SHA256,
) -> dict[str, bool]:
    """Create a user, or replace tags and password; return whether it is new.

    Args:
        access: Users of the server.
        name: Name of the user.
        tags: Its tags.
        password: Its password, which is hashed in a worker; None: the hash counts.
        password_hash: Hash; empty: no password logs in.
        hashing_algorithm: Algorithm of the hash.

    Raises:
        ControlError: A value is not valid, or the disk failed.
    """
    made = PasswordHash(hashing_algorithm, password_hash)
    given = texts("tags", tags)
    try:
        User(name, made, given).check()
    except InvalidUserError as error:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, str(error)) from error
    if password:
        hashed = await hash_password(password)
        made = PasswordHash(hashed["hashing_algorithm"], hashed["password_hash"])
    is_new = name not in access.users and await _add(access, User(name, made, given))
    if not is_new:
        await done(access.change_user(name, password=made, tags=given))
    logger.info("user set user=%r tags=%s", name, ",".join(given))
    return {"created": is_new}


async def _add(access: AccessControl, user: User) -> bool:
    """Create a user; return whether it is new: another request may have been quicker."""
    try:
        await done(access.add_user(user))
    except ControlError as error:
        if error.kind is ErrorKind.ALREADY_EXISTS:
            return False
        raise
    return True


async def change_password(
    access: AccessControl, name: str, password_hash: str, hashing_algorithm: str
) -> None:
    """Change the password of a user; open connections stay."""
    password = PasswordHash(hashing_algorithm, password_hash)
    await done(access.change_user(name, password=password))
    logger.info("password changed user=%r", name)


async def set_tags(access: AccessControl, name: str, tags: list[str]) -> None:
    """Replace the tags of a user."""
    given = texts("tags", tags)
    await done(access.change_user(name, tags=given))
    logger.info("tags changed user=%r tags=%s", name, ",".join(given))


async def delete(access: AccessControl, name: str) -> None:
    """Delete a user with its permissions; its connections are closed (320)."""
    await done(access.delete_user(name))
    logger.info("user deleted user=%r", name)


async def reset(
    access: AccessControl, name: str, password_hash: str, hashing_algorithm: str
) -> dict[str, object]:
    """Create or replace a user who may do everything; return who, and in how many virtual hosts."""
    user = User(name, PasswordHash(hashing_algorithm, password_hash), (ADMINISTRATOR,))
    try:
        user.check()
    except InvalidUserError as error:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, str(error)) from error
    if name in access.users:
        await done(access.change_user(name, password=user.password, tags=user.tags))
    else:
        await done(access.add_user(user))
    vhosts = access.vhost_names
    for vhost in vhosts:
        await done(access.set_permissions(vhost, name, FULL))
    await done(access.replace_default_user(name))
    logger.info("user reset user=%r vhosts=%d", name, len(vhosts))
    return {"name": name, "vhosts": len(vhosts)}


async def list_all(
    access: AccessControl, name: str | None = None, with_hashes: bool = False
) -> list[dict[str, object]]:
    """Return the users by name.

    Args:
        access: Users of the server.
        name: Only the user of this name; None: all.
        with_hashes: Whether the hashes of their passwords are among the values.
    """
    # Copied here, then sorted in a worker: there may be many, and others change them during that
    # time.
    users = [each for each in access.users.values() if name in (None, each.name)]
    names = [list(users) for users in access.permissions.values()]
    return await asyncio.to_thread(_rows, users, names, access.default_user, with_hashes)


def _rows(
    users: Iterable[User],
    names: Iterable[Iterable[str]],
    default_user: str,
    with_hashes: bool,
) -> list[dict[str, object]]:
    counts = Counter(chain.from_iterable(names))
    return [
        {
            "name": user.name,
            "tags": list(user.tags),
            "hashing_algorithm": user.password.algorithm if user.password.text else None,
            **({"password_hash": user.password.text} if with_hashes else {}),
            "vhosts": counts[user.name],
            "limits": dict(user.limits),
            "is_default": user.name == default_user,
        }
        for user in sorted(users, key=attrgetter("name"))
    ]


def texts(argument: str, values: Iterable[object]) -> tuple[str, ...]:
    """Return an array of texts.

    Raises:
        ControlError: It holds something else.
    """
    found = tuple(value for value in values if isinstance(value, str))
    if len(found) != len(tuple(values)):
        raise ControlError(ErrorKind.INVALID_ARGUMENT, f"argument '{argument}' must hold texts")
    return found


async def done(change: Awaitable[object]) -> Any:  # noqa: ANN401 - whatever the change returns
    """Wait for a change of users or permissions and convert its errors.

    Raises:
        ControlError: The change was refused, or the disk failed.
    """
    try:
        return await change
    except (InvalidUserError, InvalidPermissionError) as error:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, str(error)) from error
    except (NoSuchUserError, NoSuchVhostError) as error:
        raise ControlError(ErrorKind.NOT_FOUND, str(error)) from error
    except UserExistsError as error:
        raise ControlError(ErrorKind.ALREADY_EXISTS, str(error)) from error
    except TooManyUsersError as error:
        raise ControlError(ErrorKind.LIMIT_REACHED, str(error)) from error
    except (AccessError, MetadataError) as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error


def user_commands(access: AccessControl) -> tuple[Command, ...]:
    """Return the commands `users.*` of a server with these users."""
    password = {"name": str, "password_hash": str, "hashing_algorithm": str}
    return (
        Command(
            "users.list",
            partial(list_all, access),
            optional={"name": str, "with_hashes": bool},
        ),
        Command("users.add", partial(add, access), {**password, "tags": list}),
        Command(
            "users.set",
            partial(set_one, access),
            {"name": str, "tags": list},
            {"password": str, "password_hash": str, "hashing_algorithm": str},
        ),
        Command("users.change_password", partial(change_password, access), password),
        Command("users.set_tags", partial(set_tags, access), {"name": str, "tags": list}),
        Command("users.delete", partial(delete, access), {"name": str}),
        Command("users.reset", partial(reset, access), password),
    )
