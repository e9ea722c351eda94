"""Creation and deletion of virtual hosts.

A virtual host exists until its document says that it is deleted. So after a crash this one document
decides between a whole virtual host and none. The document stays until nothing else is left. So
whatever a crash leaves of a deleted virtual host is recognised, and the next start removes it
(`amqp_server.recovery.vhost_recovery`). A missing document is damage, not a deletion.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from amqp_server.access.permissions import FULL
from amqp_server.broker.job import done_in_turns
from amqp_server.broker.virtual_host import VirtualHost
from metadata.errors import DocumentWriteError, MetadataError
from metadata.names import encode_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.policies.policies import Policies
    from amqp_server.broker.queue import Queue

logger = logging.getLogger("amqp_server.broker.vhost_changes")

LOGS_PER_REMOVAL = 32
"""Logs that are removed at a time; the flushes of other queues wait for that many."""
NAME_BYTES_MAX = 255
"""Longest name in bytes: `connection.open` carries it as a short string."""


class VhostNameError(Exception):
    """The name is not allowed for a virtual host."""


class VhostExistsError(Exception):
    """A virtual host with this name exists already."""


class NoSuchVhostError(Exception):
    """There is no virtual host with this name."""


class TooManyVhostsError(Exception):
    """The server has as many virtual hosts as allowed."""


class VhostChanges:
    """Makes one change at a time. The event loop owns it.

    A change runs to its end even if its caller is cancelled.

    Args:
        broker: Broker that owns the virtual hosts.
        spawn: Runs a coroutine in the background; the server awaits it when it stops.
        disconnect: Returns the steps that close the connections of a virtual host.
        policies: Changes policies; those that have begun end before a virtual host goes.
        access: Users and permissions.
    """

    def __init__(
        self,
        broker: Broker,
        spawn: Callable[[Coroutine[None, None, None]], None],
        disconnect: Callable[[str], Iterator[None]],
        policies: Policies,
        access: AccessControl,
    ) -> None:
        self._broker = broker
        self._definitions = broker.definitions
        self._spawn = spawn
        self._disconnect = disconnect
        self._policies = policies
        self._access = access
        self._one_at_a_time = asyncio.Lock()
        self._removing_logs: dict[str, asyncio.Event] = {}
        self._unfinished: set[str] = set()

    async def create(self, name: str, *, grants_default_user: bool = True) -> None:
        """Create a virtual host with the predeclared exchanges; return when it is durable.

        Args:
            name: Name of the virtual host.
            grants_default_user: Whether the default user gets all rights there.

        Raises:
            VhostNameError: The name is empty or longer than `NAME_BYTES_MAX`.
            VhostExistsError: A virtual host with this name exists already.
            TooManyVhostsError: The server has as many virtual hosts as allowed.
            MetadataError: The disk refused; the virtual host was not created.
        """
        await self._finish(self._create(name, grants_default_user=grants_default_user))

    async def delete(self, name: str) -> None:
        """Delete a virtual host, its connections and everything in it.

        Returns when none of it can come back; its log files are removed in the background.

        Raises:
            NoSuchVhostError: There is no virtual host with this name.
            MetadataError: The disk refused; the virtual host is unchanged.
        """
        await self._finish(self._delete(name))

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Let no virtual host be created or deleted during the block."""
        async with self._one_at_a_time:
            yield

    async def until_removed(self, name: str) -> None:
        """Return when nothing is left of an earlier virtual host with a free name.

        Raises:
            MetadataError: The rest cannot be removed; a new virtual host would contain it.
        """
        await self._wait_for_removal(name)

    async def _finish(self, change: Awaitable[None]) -> None:
        task = asyncio.ensure_future(change)
        self._spawn(_end_of(task))
        await asyncio.shield(task)

    async def _create(self, name: str, *, grants_default_user: bool) -> None:
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            raise VhostNameError(f"the name of a vhost must have 1 to {NAME_BYTES_MAX} bytes")
        async with self._one_at_a_time:
            vhosts = self._broker.vhosts
            if name in vhosts:
                raise VhostExistsError(f"vhost '{name}' already exists")
            limit = self._broker.config.vhosts_max
            if len(vhosts) >= limit:
                raise TooManyVhostsError(
                    f"cannot create vhost '{name}': limit ({limit}) is reached"
                )
            await self._wait_for_removal(name)
            try:
                await self._definitions.save_vhost(name)
            except MetadataError:
                # The document may be on the disk nevertheless, and a restart would find it.
                with suppress(MetadataError):
                    await self._definitions.remove_vhost(name)
                    await self._definitions.forget_vhost(name)
                raise
            vhosts[name] = VirtualHost(name)
            self._broker.audit.record("vhost.created", name=name)
            user = self._access.default_user
            if grants_default_user and user in self._access.users:
                await self._access.set_permissions(name, user, FULL)

    async def _wait_for_removal(self, name: str) -> None:
        """Return when nothing is left of an earlier virtual host with this name.

        Raises:
            MetadataError: The rest cannot be removed; a new virtual host would contain it.
        """
        removing = self._removing_logs.get(name)
        if removing is not None:
            await removing.wait()
        if name in self._unfinished:
            await self._definitions.clear_vhost(encode_name(name))
            left = await asyncio.to_thread(self._broker.storage.remove_logs_of, name)
            if left is not None:
                raise DocumentWriteError(*left)
            self._unfinished.discard(name)

    async def _delete(self, name: str) -> None:
        async with self._one_at_a_time:
            if name not in self._broker.vhosts:
                raise NoSuchVhostError(f"vhost '{name}' does not exist")
            try:
                await self._definitions.remove_vhost(name)
            except MetadataError:
                # The virtual host continues to work, so it must exist after a restart too.
                with suppress(MetadataError):
                    await self._definitions.save_vhost(name)
                raise
            vhost = self._broker.vhosts[name]
            self._broker.audit.record(
                "vhost.deleted",
                name=name,
                details={"queues": len(vhost.queues), "exchanges": len(vhost.exchanges)},
            )
            queues = await self._empty(name)
            # Saves that have started must end before their documents are removed.
            await self._broker.definition_writer.until_done()
            await self._policies.until_done()
            try:
                await self._definitions.clear_vhost(encode_name(name))
            except MetadataError as error:
                # The virtual host's document says that these definitions are void, and the next
                # start removes them. Until then a new virtual host must not inherit them.
                self._unfinished.add(name)
                logger.error("vhost not cleared vhost=%s error=%s", name, error)  # noqa: TRY400 - one line says it all
            self._removing_logs[name] = asyncio.Event()
            self._spawn(self._remove_logs(name, queues))

    async def _empty(self, name: str) -> list[Queue]:
        """Remove a virtual host from memory; return its queues, whose messages are still there."""
        vhost = self._broker.remove_vhost(name)
        queues: list[Queue] = []

        def steps() -> Iterator[None]:
            yield from self._broker.empty_vhost(vhost, queues)
            yield from self._disconnect(name)
            # The clients may have declared more before they were disconnected.
            yield from self._broker.empty_vhost(vhost, queues)

        turn = self._broker.turn
        await done_in_turns(turn, turn.upkeep, steps(), f"deletion of vhost {name!r}")
        # Not earlier: clients would get ACCESS_REFUSED instead of the real reason.
        self._access.forget_vhost(name)
        self._broker.damaged_documents.forget_vhost(encode_name(name))
        return queues

    async def _remove_logs(self, name: str, queues: list[Queue]) -> None:
        """Remove the messages of a deleted virtual host's queues, then its document."""
        try:
            for at in range(0, len(queues), LOGS_PER_REMOVAL):
                await self._discard(queues[at : at + LOGS_PER_REMOVAL])
            left = await asyncio.to_thread(self._broker.storage.remove_logs_of, name)
            if left is not None:
                self._unfinished.add(name)
                logger.warning("logs of a deleted vhost left path=%s error=%s", *left)
            if name not in self._unfinished:
                await self._forget(name)
        finally:
            self._removing_logs.pop(name).set()

    async def _forget(self, name: str) -> None:
        """Remove the document of a deleted virtual host of which nothing else is left."""
        try:
            await self._definitions.forget_vhost(name)
        except MetadataError as error:
            # The next start removes it.
            logger.warning("note of a deleted vhost left vhost=%s error=%s", name, error)

    async def _discard(self, queues: list[Queue]) -> None:
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[None]] = []
        for queue in queues:
            done = loop.create_future()
            self._broker.discard(queue, partial(done.set_result, None))
            waiting.append(done)
        for done in waiting:
            await done


async def _end_of(task: asyncio.Task[None]) -> None:
    """Return when a task has ended; its caller gets the result."""
    await asyncio.wait([task])
