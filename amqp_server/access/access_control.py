"""The users of a server and their permissions, in memory and on the disk."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from amqp_server.access.errors import (
    NoSuchUserError,
    NoSuchVhostError,
    TooManyUsersError,
    UserExistsError,
)
from amqp_server.access.grants import Grants
from amqp_server.access.permissions import (
    PERMISSIONS,
    TOPIC_PERMISSIONS,
    TOPICS_PER_USER_MAX,
    InvalidPermissionError,
    topics_document,
)
from amqp_server.access.user import USERS, User, deletion_note, first_user_record
from amqp_server.access.visitors import Visitors
from metadata.errors import MetadataError
from metadata.names import encode_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from amqp_server.access.passwords import PasswordHash
    from amqp_server.access.permissions import Permissions, TopicPermissions
    from amqp_server.audit.audit_log import AuditLog
    from metadata.store import MetadataStore

IMPERSONATOR: Final = "impersonator"
"""Tag of users who may publish with the `user-id` of another one."""
USERS_MAX: Final = 100_000
"""Users of a server."""


class AccessControl:
    """Answers who may do what, and makes one change at a time. The event loop owns it.

    A change counts when it is on the disk. It runs to its end even if its caller is cancelled.

    Args:
        store: Store of the definitions.
        vhosts: The virtual hosts by name; the broker changes it.
        spawn: Runs a coroutine in the background; the server awaits it when it stops.
        disconnect: Returns the steps that close the connections of a deleted user.
        audit: Records the changes, with the actor of the present task; None records nothing.

    Attributes:
        users: The users by name; do not change it.
        permissions: Permissions by virtual host, then by user; do not change it.
        topics: Permissions for routing keys by virtual host, user and exchange; do not change it.
        damaged_topics: Of whom such permissions cannot be read: encoded names of virtual host and
            user, empty for all. Until they are set again, no topic exchange allows them a key.
        damaged_users: Encoded names of users whose documents are damaged or missing.
        is_default_user_lost: Whether it is not known who was the default user.
        default_user: User who gets all rights in a new virtual host; may not exist.
        visitors: Users of other back ends for whom programs make requests.
        generation: Grows with each change: what was derived from earlier answers is out of date.
    """

    def __init__(
        self,
        store: MetadataStore,
        vhosts: Mapping[str, object],
        spawn: Callable[[Coroutine[None, None, None]], None],
        disconnect: Callable[[str], Coroutine[None, None, None]],
        audit: AuditLog | None = None,
    ) -> None:
        self.users: dict[str, User] = {}
        self.permissions: dict[str, dict[str, Permissions]] = {}
        self.topics: dict[str, dict[str, dict[str, TopicPermissions]]] = {}
        self.damaged_topics: set[tuple[str, str]] = set()
        self.damaged_users: set[str] = set()
        self.is_default_user_lost = False
        self.default_user = ""
        self.visitors = Visitors()
        self.generation = 0
        self._store = store
        self._vhosts = vhosts
        self._spawn = spawn
        self._disconnect = disconnect
        self._audit = audit
        self._one_at_a_time = asyncio.Lock()
        self._grants: dict[tuple[str, str], Grants] = {}

    def grants(self, user: str, vhost: str) -> Grants:
        """Return what a user may do in a virtual host, until `generation` changes."""
        found = self._grants.get((user, vhost))
        if found is None:
            permissions = None
            topics: Mapping[str, TopicPermissions] = {}
            may_impersonate = False
            if user in self.users:
                permissions = self.permissions.get(vhost, {}).get(user)
                topics = self.topics.get(vhost, {}).get(user, {})
                may_impersonate = IMPERSONATOR in self.users[user].tags
            found = self._grants[user, vhost] = Grants(
                user,
                vhost,
                permissions,
                dict(topics),
                may_impersonate=may_impersonate,
                has_all_topics=not self._has_damaged_topics(vhost, user),
            )
        return found

    def _has_damaged_topics(self, vhost: str, user: str) -> bool:
        damaged = self.damaged_topics
        if not damaged:
            return False
        in_vhost, name = encode_name(vhost), encode_name(user)
        return not damaged.isdisjoint(((in_vhost, name), (in_vhost, ""), ("", "")))

    def may_access(self, user: str, vhost: str) -> bool:
        """Return whether a user has any permission in a virtual host."""
        return user in self.users and user in self.permissions.get(vhost, {})

    @property
    def vhost_names(self) -> list[str]:
        """Names of the virtual hosts that exist."""
        return sorted(self._vhosts)

    def changed(self) -> None:
        """Note a change: nothing that was answered before counts any more."""
        self.generation += 1
        self._grants.clear()

    def forget_vhost(self, vhost: str) -> None:
        """Forget the permissions in a deleted virtual host; its documents go with it."""
        self.permissions.pop(vhost, None)
        self.topics.pop(vhost, None)
        gone = encode_name(vhost)
        self.damaged_topics = {each for each in self.damaged_topics if each[0] != gone}
        self.changed()

    # Changes

    async def add_user(self, user: User) -> None:
        """Create a user without permissions.

        Raises:
            InvalidUserError: A value is not allowed.
            UserExistsError: There is a user with this name.
            TooManyUsersError: There are as many users as allowed.
            MetadataError: The disk refused; the user was not created.
        """
        user.check()
        await self._finish(self._add_user(user))

    async def change_user(
        self,
        name: str,
        *,
        password: PasswordHash | None = None,
        tags: tuple[str, ...] | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> None:
        """Change what is given of a user. Open connections stay as they are.

        Raises:
            InvalidUserError: A value is not allowed.
            NoSuchUserError: There is no user with this name.
            MetadataError: The disk refused; the user is unchanged.
        """
        await self._finish(self._change_user(name, password, tags, limits))

    async def delete_user(self, name: str) -> None:
        """Delete a user, its permissions and its connections; also one whose document is damaged.

        Returns when nothing of it can come back.

        Raises:
            NoSuchUserError: There is no user with this name.
            MetadataError: The disk refused; the user is unchanged.
        """
        await self._finish(self._delete_user(name))

    async def replace_default_user(self, name: str) -> None:
        """Make a user the default user if it is not known who that was.

        Raises:
            MetadataError: The disk refused; nothing has changed.
        """
        await self._finish(self._replace_default_user(name))

    async def set_permissions(self, vhost: str, user: str, permissions: Permissions) -> None:
        """Set what a user may do in a virtual host.

        Raises:
            InvalidPermissionError: A pattern is not valid.
            NoSuchUserError: There is no such user.
            NoSuchVhostError: There is no such virtual host.
            MetadataError: The disk refused; nothing has changed.
        """
        # A pattern may take 20 ms to compile.
        await asyncio.to_thread(permissions.check)
        await self._finish(self._set_permissions(vhost, user, permissions))

    async def clear_permissions(self, vhost: str, user: str) -> bool:
        """Remove what a user may do in a virtual host; return whether there was anything.

        Raises:
            MetadataError: The disk refused; nothing has changed.
        """
        existed = user in self.permissions.get(vhost, {})
        await self._finish(self._clear_permissions(vhost, user))
        return existed

    async def set_topic_permissions(
        self, vhost: str, user: str, exchange: str, topic: TopicPermissions
    ) -> None:
        """Set with which routing keys a user may work at a topic exchange.

        Raises:
            InvalidPermissionError: A pattern is not valid, or the user has too many.
            NoSuchUserError: There is no such user.
            NoSuchVhostError: There is no such virtual host.
            MetadataError: The disk refused; nothing has changed.
        """
        await asyncio.to_thread(topic.check)
        await self._finish(self._change_topics(vhost, user, {exchange: topic}))

    async def clear_topic_permissions(
        self, vhost: str, user: str, exchange: str | None = None
    ) -> bool:
        """Remove such permissions, of all exchanges without `exchange`; return whether any was.

        Raises:
            NoSuchUserError: There is no such user.
            NoSuchVhostError: There is no such virtual host.
            MetadataError: The disk refused; nothing has changed.
        """
        found = self.topics.get(vhost, {}).get(user, {})
        removed = list(found) if exchange is None else [exchange] * (exchange in found)
        await self._finish(self._change_topics(vhost, user, dict.fromkeys(removed)))
        return bool(removed)

    # Changes that another part writes to the disk

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Let nothing be changed during the block but by the block itself."""
        async with self._one_at_a_time:
            yield

    def take_user(self, user: User) -> None:
        """Add or replace a user whose document is on the disk."""
        self.users[user.name] = user
        self.damaged_users.discard(encode_name(user.name))
        self.changed()

    def take_permissions(self, vhost: str, user: str, permissions: Permissions) -> None:
        """Add or replace permissions whose document is on the disk."""
        self.permissions.setdefault(vhost, {})[user] = permissions
        self.changed()

    def take_topics(self, vhost: str, user: str, topics: dict[str, TopicPermissions]) -> None:
        """Replace all topic permissions of a user, whose document is on the disk."""
        self.topics.setdefault(vhost, {})[user] = topics
        self.damaged_topics.discard((encode_name(vhost), encode_name(user)))
        self.changed()

    # One change at a time

    async def _finish(self, change: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(self._alone(change))
        self._spawn(_end_of(task))
        await asyncio.shield(task)

    async def _alone(self, change: Coroutine[None, None, None]) -> None:
        async with self._one_at_a_time:
            await change

    async def _add_user(self, user: User) -> None:
        if user.name in self.users:
            raise UserExistsError(f"user '{user.name}' already exists")
        if len(self.users) >= USERS_MAX:
            raise TooManyUsersError(
                f"cannot create user '{user.name}': limit ({USERS_MAX}) is reached"
            )
        # Documents that may be left of an earlier user with this name.
        await self._remove_rows(user.name)
        try:
            await self._store.put(user.document())
        except MetadataError:
            # It may be on the disk nevertheless, and a restart would find it.
            with suppress(MetadataError):
                await self._store.delete(USERS, "", user.name)
            raise
        self.users[user.name] = user
        self.damaged_users.discard(encode_name(user.name))
        self.changed()
        self._record("user.created", name=user.name, details={"tags": user.tags})

    async def _change_user(
        self,
        name: str,
        password: PasswordHash | None,
        tags: tuple[str, ...] | None,
        limits: Mapping[str, int] | None,
    ) -> None:
        before = self._user(name)
        user = replace(
            before,
            password=before.password if password is None else password,
            tags=before.tags if tags is None else tags,
            limits=before.limits if limits is None else dict(limits),
        )
        user.check()
        try:
            await self._store.put(user.document())
        except MetadataError:
            with suppress(MetadataError):
                await self._store.put(before.document())
            raise
        self.users[name] = user
        self.changed()
        if password is not None:
            self._record("user.password.changed", name=name)
        if tags is not None:
            self._record("user.tags.set", name=name, details={"tags": tags})
        if limits is not None:
            event = "user.limits.set" if limits else "user.limits.cleared"
            self._record(event, name=name, details=dict(limits))

    async def _replace_default_user(self, name: str) -> None:
        if self.is_default_user_lost:
            self._user(name)
            await self._store.put(first_user_record(name))
            self.default_user = name
            self.is_default_user_lost = False

    async def _delete_user(self, name: str) -> None:
        is_damaged = encode_name(name) in self.damaged_users
        user = None if is_damaged else self._user(name)
        try:
            # From here on the user is deleted, whatever is left of the permissions.
            await self._store.put(deletion_note(name))
        except MetadataError:
            with suppress(MetadataError):
                if user is not None:
                    await self._store.put(user.document())
            raise
        self.users.pop(name, None)
        self.damaged_users.discard(encode_name(name))
        self.changed()
        self._record("user.deleted", name=name)
        self._spawn(self._disconnect(name))
        # The next start removes what the disk refuses to remove now.
        with suppress(MetadataError):
            await self._remove_rows(name)
            for vhost in list(self._vhosts) if is_damaged else ():
                # Also rows that are missed, as the user was.
                await self._store.delete(PERMISSIONS, vhost, name)
                await self._store.delete(TOPIC_PERMISSIONS, vhost, name)
            await self._store.delete(USERS, "", name)

    def _record(
        self,
        event: str,
        *,
        name: str,
        vhost: str = "",
        details: Mapping[str, object] | None = None,
    ) -> None:
        if self._audit is not None:
            self._audit.record(event, vhost=vhost, name=name, details=details)

    async def _remove_rows(self, user: str) -> None:
        for kind, rows in ((PERMISSIONS, self.permissions), (TOPIC_PERMISSIONS, self.topics)):
            for vhost in [vhost for vhost, users in rows.items() if user in users]:
                if vhost in self._vhosts:
                    await self._store.delete(kind, vhost, user)
                rows.get(vhost, {}).pop(user, None)
        for vhost in list(self._vhosts) if self.damaged_topics else ():
            damaged = encode_name(vhost), encode_name(user)
            if damaged in self.damaged_topics and vhost in self._vhosts:
                await self._store.delete(TOPIC_PERMISSIONS, vhost, user)
                self.damaged_topics.discard(damaged)

    async def _set_permissions(self, vhost: str, user: str, permissions: Permissions) -> None:
        place = self._vhost(vhost)
        self._user(user)
        before = self.permissions.get(vhost, {}).get(user)
        try:
            await self._store.put(permissions.document(vhost, user))
        except MetadataError:
            with suppress(MetadataError):
                if before is not None:
                    await self._store.put(before.document(vhost, user))
                elif self._vhosts.get(vhost) is place:
                    await self._store.delete(PERMISSIONS, vhost, user)
            raise
        if self._vhosts.get(vhost) is place:
            self.permissions.setdefault(vhost, {})[user] = permissions
            self.changed()
            details = {
                "configure": permissions.configure,
                "write": permissions.write,
                "read": permissions.read,
            }
            self._record("permission.created", vhost=vhost, name=user, details=details)

    async def _clear_permissions(self, vhost: str, user: str) -> None:
        if user not in self.permissions.get(vhost, {}):
            if vhost in self._vhosts:
                # Its document may be damaged or missing: that is accepted now.
                await self._store.delete(PERMISSIONS, vhost, user)
            return
        # At once, whatever the disk says: what is taken away must not stay.
        before = self.permissions[vhost].pop(user)
        self.changed()
        self._record("permission.deleted", vhost=vhost, name=user)
        place = self._vhosts.get(vhost)
        try:
            await self._store.delete(PERMISSIONS, vhost, user)
        except MetadataError:
            if self._vhosts.get(vhost) is place:
                self.permissions.setdefault(vhost, {})[user] = before
                self.changed()
            raise

    async def _change_topics(
        self, vhost: str, user: str, changes: Mapping[str, TopicPermissions | None]
    ) -> None:
        place = self._vhost(vhost)
        self._user(user)
        before = self.topics.get(vhost, {}).get(user, {})
        after = {**before, **changes}
        topics = {exchange: topic for exchange, topic in after.items() if topic is not None}
        damaged = encode_name(vhost), encode_name(user)
        if topics == before and damaged not in self.damaged_topics:
            return
        if len(topics) > TOPICS_PER_USER_MAX:
            raise InvalidPermissionError(
                f"user '{user}' has topic permissions for {TOPICS_PER_USER_MAX} exchanges of vhost "
                f"'{vhost}' already, the most allowed"
            )
        try:
            await self._save_topics(vhost, user, topics)
        except MetadataError:
            with suppress(MetadataError):
                if self._vhosts.get(vhost) is place:
                    await self._save_topics(vhost, user, before)
            raise
        if self._vhosts.get(vhost) is place:
            self.damaged_topics.discard(damaged)
            rows = self.topics.setdefault(vhost, {})
            rows[user] = topics
            if not topics:
                del rows[user]
            self.changed()
            for exchange, topic in changes.items():
                self._record_topic(vhost, user, exchange, topic)

    def _record_topic(
        self, vhost: str, user: str, exchange: str, topic: TopicPermissions | None
    ) -> None:
        details = {"exchange": exchange}
        if topic is None:
            self._record("topic.permission.deleted", vhost=vhost, name=user, details=details)
            return
        details |= {"write": topic.write, "read": topic.read}
        self._record("topic.permission.created", vhost=vhost, name=user, details=details)

    async def _save_topics(
        self, vhost: str, user: str, topics: Mapping[str, TopicPermissions]
    ) -> None:
        if topics:
            await self._store.put(topics_document(vhost, user, topics))
        else:
            await self._store.delete(TOPIC_PERMISSIONS, vhost, user)

    def _user(self, name: str) -> User:
        user = self.users.get(name)
        if user is None:
            raise NoSuchUserError(f"user '{name}' does not exist")
        return user

    def _vhost(self, name: str) -> object:
        vhost = self._vhosts.get(name)
        if vhost is None:
            raise NoSuchVhostError(f"vhost '{name}' does not exist")
        return vhost


async def _end_of(task: asyncio.Task[None]) -> None:
    """Return when a task has ended; its caller gets the result."""
    await asyncio.wait([task])
