"""Sets, clears and lists the limits of virtual hosts and users."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from amqp_server.access.errors import NoSuchUserError, NoSuchVhostError
from amqp_server.broker.vhost_limits import (
    DOCUMENT_NAME,
    VHOST_LIMITS,
    VhostLimits,
)
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.virtual_host import VirtualHost
    from metadata.store import MetadataStore

NAMES_PER_STEP: Final = 1000
"""Virtual hosts or users that are looked at before others have their turn."""


class LimitSettings:
    """Changes limits, one at a time. The event loop owns it.

    A change counts when it is on the disk, and runs to its end even if its caller is cancelled.
    What is above a lowered limit stays: no connection is closed, no queue is deleted.

    Args:
        broker: Broker that owns the virtual hosts.
        access: Users with their limits.
        store: Store of the definitions.
        spawn: Runs a coroutine in the background; the server awaits it when it stops.
    """

    def __init__(
        self,
        broker: Broker,
        access: AccessControl,
        store: MetadataStore,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._broker = broker
        self._access = access
        self._store = store
        self._spawn = spawn
        self._one_at_a_time = asyncio.Lock()

    def of_vhost(self, name: str) -> dict[str, int]:
        """Return the limits of a virtual host, by limit; none if there is no such virtual host."""
        vhost = self._broker.vhosts.get(name)
        return {} if vhost is None else vhost.limits.values

    def of_user(self, name: str) -> dict[str, int]:
        """Return the limits of a user, by limit; none if there is no such user."""
        user = self._access.users.get(name)
        return {} if user is None else _set_ones(user.limits)

    async def of_vhosts(self) -> dict[str, dict[str, int]]:
        """Return the limits of each virtual host that has any, by name."""
        return await _found(list(self._broker.vhosts), self.of_vhost)

    async def of_users(self) -> dict[str, dict[str, int]]:
        """Return the limits of each user that has any, by name."""
        return await _found(list(self._access.users), self.of_user)

    async def set_vhost(
        self, vhost: str, limits: Mapping[str, object], *, replace: bool = False
    ) -> None:
        """Set limits of a virtual host; return when they are on the disk.

        Args:
            vhost: Name of the virtual host.
            limits: Values by name: `max-connections`, `max-queues`; -1 is no limit, 0 admits none.
            replace: Whether limits that are not given end, as with RabbitMQ's `set_vhost_limits`.

        Raises:
            InvalidLimitError: There is no such limit, or it cannot have this value.
            NoSuchVhostError: There is no such virtual host.
            MetadataError: The disk refused; nothing has changed.
        """
        # Check before anything waits.
        VhostLimits.of(limits)
        await self._finish(self._set_vhost(vhost, dict(limits), replace=replace))

    async def clear_vhost(self, vhost: str, names: Collection[str] = ()) -> None:
        """End limits of a virtual host; none is no error.

        Args:
            vhost: Name of the virtual host.
            names: Names of limits; empty for all.

        Raises:
            InvalidLimitError: There is no such limit.
            NoSuchVhostError: There is no such virtual host.
            MetadataError: The disk refused; nothing has changed.
        """
        if names:
            await self.set_vhost(vhost, dict.fromkeys(names, -1))
        else:
            await self.set_vhost(vhost, {}, replace=True)

    async def set_user(
        self, user: str, limits: Mapping[str, int], *, replace: bool = False
    ) -> None:
        """Set limits of a user; return when they are on the disk.

        Args:
            user: Name of the user.
            limits: Values by name: `max-connections`, `max-channels`; -1 is no limit, 0 allows
                none.
            replace: Whether limits that are not given end.

        Raises:
            InvalidUserError: There is no such limit, or it cannot have this value.
            NoSuchUserError: There is no such user.
            MetadataError: The disk refused; nothing has changed.
        """
        async with self._one_at_a_time:
            found = self._access.users.get(user)
            if found is None:
                raise NoSuchUserError(f"user '{user}' does not exist")
            before = {} if replace else found.limits
            await self._access.change_user(user, limits=_set_ones({**before, **limits}))

    async def clear_user(self, user: str, names: Collection[str] = ()) -> None:
        """End limits of a user; none is no error.

        Args:
            user: Name of the user.
            names: Names of limits; empty for all.

        Raises:
            InvalidUserError: There is no such limit.
            NoSuchUserError: There is no such user.
            MetadataError: The disk refused; nothing has changed.
        """
        if names:
            await self.set_user(user, dict.fromkeys(names, -1))
        else:
            await self.set_user(user, {}, replace=True)

    async def _finish(self, change: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(change)
        self._spawn(_end_of(task))
        await asyncio.shield(task)

    async def _set_vhost(self, name: str, limits: dict[str, object], *, replace: bool) -> None:
        async with self._one_at_a_time:
            vhost = self._broker.vhosts.get(name)
            if vhost is None:
                raise NoSuchVhostError(f"vhost '{name}' does not exist")
            before = vhost.limits
            after = VhostLimits.of(limits if replace else {**before.values, **limits})
            try:
                await self._save(vhost, after)
            except MetadataError:
                # The new document may be on the disk nevertheless.
                with suppress(MetadataError):
                    await self._save(vhost, before)
                raise
            if vhost.is_deleted:
                raise NoSuchVhostError(f"vhost '{name}' was deleted in the meantime")
            vhost.limits = after
            event = "vhost.limits.set" if after.values else "vhost.limits.cleared"
            self._broker.audit.record(event, name=name, details=after.values)

    async def _save(self, vhost: VirtualHost, limits: VhostLimits) -> None:
        if vhost.is_deleted:
            # Its documents are being removed: none may be added.
            return
        if limits.values:
            await self._store.put(limits.document(vhost.name))
        else:
            await self._store.delete(VHOST_LIMITS, vhost.name, DOCUMENT_NAME)


async def _found(
    names: list[str], limits_of: Callable[[str], dict[str, int]]
) -> dict[str, dict[str, int]]:
    """Return what has limits; others have their turn in between: there may be 100,000 users."""
    found: dict[str, dict[str, int]] = {}
    for at in range(0, len(names), NAMES_PER_STEP):
        for name in names[at : at + NAMES_PER_STEP]:
            if limits := limits_of(name):
                found[name] = limits
        await asyncio.sleep(0)
    return dict(sorted(found.items()))


def _set_ones(limits: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in limits.items() if value != -1}


async def _end_of(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])
