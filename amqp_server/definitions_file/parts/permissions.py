"""The sections `permissions` and `topic_permissions`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from amqp_server.access.permissions import (
    TOPICS_PER_USER_MAX,
    InvalidPermissionError,
    Permissions,
    TopicPermissions,
    topics_document,
)
from amqp_server.definitions_file.parts.part import in_vhost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.access.access_control import AccessControl
    from amqp_server.definitions_file.entry import Entry
    from amqp_server.definitions_file.import_changes import ImportChanges
    from amqp_server.definitions_file.import_plan import ImportPlan


class PermissionsPart:
    """Permissions of users in virtual hosts; existing ones are overwritten.

    Args:
        access: Users and permissions of the server.
    """

    section = "permissions"

    def __init__(self, access: AccessControl) -> None:
        self._access = access

    def plan(self, entry: Entry, plan: ImportPlan) -> None:
        """Check the permissions of a user in a virtual host; see `Part`."""
        vhost = plan.vhost_of(entry).name
        user = _user(self._access, entry, plan)
        if not plan.is_first(entry, (vhost, user)):
            return
        permissions = Permissions(entry.text("configure"), entry.text("write"), entry.text("read"))
        existing = self._access.permissions.get(vhost, {}).get(user)
        if existing == permissions:
            plan.equal(entry)
            return
        _check(entry, plan, permissions)
        step = partial(_save, self._access, vhost, user, permissions)
        (plan.create if existing is None else plan.change)(entry, step)

    def export(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the permissions; none in a file of one virtual host. See `Part`."""
        if vhost is not None:
            return
        for name, users in list(self._access.permissions.items()):
            for user, each in list(users.items()):
                fields = {"configure": each.configure, "write": each.write, "read": each.read}
                yield in_vhost(vhost, name, {"user": user, **fields})


class TopicPermissionsPart:
    """With which routing keys users may work at topic exchanges; what exists is overwritten.

    Args:
        access: Users and permissions of the server.
    """

    section = "topic_permissions"

    def __init__(self, access: AccessControl) -> None:
        self._access = access

    def plan(self, entry: Entry, plan: ImportPlan) -> None:
        """Check the permissions of a user at an exchange; see `Part`."""
        vhost = plan.vhost_of(entry).name
        user = _user(self._access, entry, plan)
        exchange = entry.short_text("exchange", may_be_empty=True)
        if not plan.is_first(entry, (vhost, user, exchange)):
            return
        topic = TopicPermissions(entry.text("write"), entry.text("read"))
        topics = self._access.topics.get(vhost, {}).get(user, {})
        existing = topics.get(exchange)
        if existing == topic:
            plan.equal(entry)
            return
        _check(entry, plan, topic)
        place = f"user '{user}' in vhost '{vhost}'"
        if existing is None:
            plan.count_new(entry, place, len(topics), TOPICS_PER_USER_MAX)
        step = partial(_save_topic, self._access, vhost, user, exchange, topic)
        (plan.create if existing is None else plan.change)(entry, step)

    def export(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the permissions; none in a file of one virtual host. See `Part`."""
        if vhost is not None:
            return
        for name, users in list(self._access.topics.items()):
            for user, topics in list(users.items()):
                for exchange, each in list(topics.items()):
                    fields = {"exchange": exchange, "write": each.write, "read": each.read}
                    yield in_vhost(vhost, name, {"user": user, **fields})


def _user(access: AccessControl, entry: Entry, plan: ImportPlan) -> str:
    """Return the user that an entry names.

    Raises:
        DefinitionsError: There is none, neither on the server nor in the file.
    """
    user = entry.short_text("user", may_be_empty=False)
    if user not in access.users and not plan.has_new("users", (user,)):
        raise entry.error(f"no user '{user}'")
    return user


def _check(entry: Entry, plan: ImportPlan, permissions: Permissions | TopicPermissions) -> None:
    if permissions in plan.checked:
        return
    try:
        permissions.check()
    except InvalidPermissionError as error:
        raise entry.error(error) from error
    plan.checked.add(permissions)


def _save(
    access: AccessControl, vhost: str, user: str, permissions: Permissions, changes: ImportChanges
) -> None:
    changes.put(permissions.document(vhost, user))
    changes.on_saved.append(partial(access.take_permissions, vhost, user, permissions))


def _save_topic(
    access: AccessControl,
    vhost: str,
    user: str,
    exchange: str,
    topic: TopicPermissions,
    changes: ImportChanges,
) -> None:
    key = (vhost, user)
    topics = changes.topics.get(key)
    if topics is None:
        topics = changes.topics[key] = dict(access.topics.get(vhost, {}).get(user, {}))
        changes.on_saved.append(partial(access.take_topics, vhost, user, topics))
    topics[exchange] = topic
    changes.put(topics_document(vhost, user, topics))
