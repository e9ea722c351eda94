"""Start-up: recovers users and permissions, and creates the first user of a data directory.

A new directory, or one from before there were users, gets one user with all rights. A document
records that this has happened. Later a directory without users, because their documents are lost or
damaged, accepts no login: `amqp-server users reset` makes logins possible again.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from amqp_server.access.passwords import PasswordHash
from amqp_server.access.permissions import (
    FULL,
    PERMISSIONS,
    TOPIC_PERMISSIONS,
    InvalidPermissionError,
    permissions_from,
    topics_from,
)
from amqp_server.access.user import (
    ACCESS,
    ADMINISTRATOR,
    FIRST_USER,
    USERS,
    InvalidUserError,
    User,
    first_user_record,
    is_deletion_note,
    user_from,
)
from amqp_server.base.errors import StartupError
from amqp_server.recovery.malformed_definitions import malformed_definition
from metadata.document import Document
from metadata.errors import MetadataError
from metadata.names import encode_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from amqp_server.access.access_control import AccessControl
    from amqp_server.base.config import ServerConfig
    from amqp_server.recovery.start_report import MalformedDefinition
    from metadata.loading import LoadReport
    from metadata.store import MetadataStore

logger = logging.getLogger("amqp_server.access_recovery")

"""Tag of the first user."""


async def recover_access(
    access: AccessControl,
    config: ServerConfig,
    report: LoadReport,
    vhosts: Collection[str],
    store: MetadataStore,
    malformed: list[MalformedDefinition],
    *,
    is_loss_accepted: bool,
) -> None:
    """Fill an empty access control with what the data directory contains.

    Args:
        access: Gets users and permissions.
        config: Settings; names the first user of a new directory.
        report: The metadata documents.
        vhosts: Names of the virtual hosts that exist.
        store: Store of the definitions.
        malformed: Gets the documents with invalid values: they give no user any right.
        is_loss_accepted: Whether the operator has accepted that all definitions are lost: the
            directory is not a new one.

    Raises:
        StartupError: The disk refused to write the first user.
    """
    invalid = partial(_add_malformed, malformed, config.storage_path)
    deleted = _take_users(access, report, invalid)
    _take_permissions(access, report, deleted, invalid)
    _note_damaged_topics(access, report)
    access.damaged_users |= {each.encoded_name for each in report.unreadable if each.kind == USERS}
    try:
        await _remove_rest(report, deleted, vhosts, store)
        first = _first_user(report)
        if first is None and is_loss_accepted:
            first = ""
            await store.put(first_user_record(first))
        elif first is None and len(access.users) == 1:
            # The start that created it was interrupted before the record.
            (first,) = access.users
            await store.put(first_user_record(first))
        elif first is None and config.load_definitions is not None and not report.has_any:
            # The definitions say which users a new directory has.
            first = ""
        elif first is None:
            first = await _create_first_user(access, config, vhosts, store)
    except MetadataError as error:
        raise StartupError(f"cannot write the data directory: {error}") from error
    access.default_user = first
    access.is_default_user_lost = is_loss_accepted or any(
        each.kind in (ACCESS, "") for each in report.unreadable
    )
    access.changed()
    if not access.users and config.load_definitions is None:
        logger.error(
            "no users path=%s note=nobody can log in: see `amqp-server users reset`",
            config.storage_path,
        )


def _take_users(
    access: AccessControl, report: LoadReport, invalid: Callable[[Document, Exception], None]
) -> set[str]:
    """Add the users; return the names of those that were deleted."""
    deleted = set()
    for document in report.documents:
        if document.kind != USERS:
            continue
        if is_deletion_note(document):
            deleted.add(document.name)
            continue
        try:
            access.users[document.name] = user_from(document)
        except InvalidUserError as error:
            invalid(document, error)
            access.damaged_users.add(encode_name(document.name))
    return deleted


def _take_permissions(
    access: AccessControl,
    report: LoadReport,
    deleted: set[str],
    invalid: Callable[[Document, Exception], None],
) -> None:
    for document in report.documents:
        vhost, user = document.vhost, document.name
        if user in deleted:
            continue
        try:
            if document.kind == PERMISSIONS:
                access.permissions.setdefault(vhost, {})[user] = permissions_from(document)
            elif document.kind == TOPIC_PERMISSIONS:
                access.topics.setdefault(vhost, {})[user] = topics_from(document)
        except InvalidPermissionError as error:
            invalid(document, error)
            if document.kind == TOPIC_PERMISSIONS:
                access.damaged_topics.add((encode_name(vhost), encode_name(user)))


def _note_damaged_topics(access: AccessControl, report: LoadReport) -> None:
    """Note whose topic permissions cannot be read: without them all keys would be allowed."""
    for each in report.unreadable:
        if each.kind in (TOPIC_PERMISSIONS, ""):
            access.damaged_topics.add((each.encoded_vhost, each.encoded_name))


def _add_malformed(
    malformed: list[MalformedDefinition], storage_path: Path, document: Document, error: Exception
) -> None:
    malformed.append(malformed_definition(storage_path, document, error))


async def _remove_rest(
    report: LoadReport, deleted: set[str], vhosts: Collection[str], store: MetadataStore
) -> None:
    """Remove what a crash has left of deleted users; their own documents last."""
    if not deleted:
        return
    for document in report.documents:
        is_row = document.kind in (PERMISSIONS, TOPIC_PERMISSIONS)
        if is_row and document.name in deleted and document.vhost in vhosts:
            await store.delete(document.kind, document.vhost, document.name)
    for name in deleted:
        await store.delete(USERS, "", name)


def _first_user(report: LoadReport) -> str | None:
    """Return the name of the first user; `""` if it is not known; None if there was none yet."""
    for document in report.documents:
        if document.kind == ACCESS and document.name == FIRST_USER:
            name = document.body.get("name")
            return name if isinstance(name, str) else ""
    # A document that cannot be read may be any of them.
    if any(each.kind in (ACCESS, USERS, "") for each in report.unreadable):
        return ""
    return "" if sum(document.kind == USERS for document in report.documents) > 1 else None


async def _create_first_user(
    access: AccessControl, config: ServerConfig, vhosts: Collection[str], store: MetadataStore
) -> str:
    """Create the first user with all rights in all virtual hosts; return the name.

    A start that was interrupted is completed by the next one.
    """
    user = first_user(config)
    # The user after the permissions: where there is a user, all of them are.
    for vhost in vhosts:
        await store.put(FULL.document(vhost, user.name))
        access.permissions.setdefault(vhost, {})[user.name] = FULL
    await store.put(user.document())
    access.users[user.name] = user
    await store.put(first_user_record(user.name))
    return user.name


def first_user(config: ServerConfig) -> User:
    """Return the user that a new data directory gets.

    Raises:
        StartupError: The settings name no valid user.
    """
    octets = config.default_password.encode("utf-8", "surrogateescape")
    # The password of `guest` is in every manual: a slow hash would protect nothing.
    is_known = (config.default_user, config.default_password) == ("guest", "guest")
    password = PasswordHash.quick(octets) if is_known else PasswordHash.of(octets)
    user = User(config.default_user, password, (ADMINISTRATOR,))
    try:
        user.check()
    except InvalidUserError as error:
        raise StartupError(f"--default-user: {error}") from error
    return user
