"""Sets and clears parameters, global parameters, and the descriptions of virtual hosts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from amqp_server.access.errors import NoSuchVhostError
from amqp_server.broker.parameters import (
    GLOBAL_PARAMETERS,
    PARAMETERS,
    PARAMETERS_MAX,
    VHOST_METADATA,
    VHOST_METADATA_NAME,
    global_parameter_document,
    parameter_document,
    vhost_metadata_document,
)
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, MutableMapping

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.parameters import ParameterOwner
    from amqp_server.broker.vhost_changes import VhostChanges
    from amqp_server.broker.virtual_host import VirtualHost
    from metadata.document import Document
    from metadata.store import MetadataStore

_ABSENT: Final = object()


class TooManyParametersError(Exception):
    """There are as many parameters as allowed."""


class ParameterSettings:
    """Makes one change at a time. The event loop owns it.

    A change counts when it is on the disk, and runs to its end even if its caller is cancelled.

    Args:
        broker: Broker that keeps the values.
        vhost_changes: Creates and deletes virtual hosts: none during a change.
        store: Store of the definitions.
        spawn: Runs a coroutine in the background; the server awaits it when it stops.
    """

    def __init__(
        self,
        broker: Broker,
        vhost_changes: VhostChanges,
        store: MetadataStore,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._broker = broker
        self._vhost_changes = vhost_changes
        self._store = store
        self._spawn = spawn

    async def set(
        self,
        vhost: str,
        component: str,
        name: str,
        value: object,
        owner: ParameterOwner | None = None,
    ) -> bool:
        """Add or replace a parameter; return whether it is new.

        Args:
            vhost: Name of the virtual host.
            component: What the parameter is for; contains no `/`.
            name: Name of the parameter.
            value: Any JSON value.
            owner: The user who sets it; None: an administrator.

        Raises:
            NoSuchVhostError: There is no such virtual host.
            TooManyParametersError: The virtual host has as many as allowed.
            MetadataError: The disk refused; nothing has changed.
        """
        kept = self._vhost(vhost).parameters
        is_new = (component, name) not in kept
        change = self._set_parameter(vhost, component, name, value, owner)
        await self._finish(change)
        return is_new

    async def clear(self, vhost: str, component: str, name: str, only: object = _ABSENT) -> bool:
        """Remove a parameter; return whether there was one.

        Args:
            vhost: Name of the virtual host.
            component: What the parameter is for.
            name: Name of the parameter.
            only: The value that is removed, this very object; another one stays.

        Raises:
            NoSuchVhostError: There is no such virtual host.
            MetadataError: The disk refused; nothing has changed.
        """
        existed = (component, name) in self._vhost(vhost).parameters
        await self._finish(self._clear_parameter(vhost, component, name, only))
        return existed

    async def set_global(self, name: str, value: object) -> bool:
        """Add or replace a global parameter; return whether it is new.

        Raises:
            TooManyParametersError: There are as many as allowed.
            MetadataError: The disk refused; nothing has changed.
        """
        is_new = name not in self._broker.global_parameters
        await self._finish(self._set_global(name, value))
        return is_new

    async def clear_global(self, name: str) -> bool:
        """Remove a global parameter; return whether there was one.

        Raises:
            MetadataError: The disk refused; nothing has changed.
        """
        existed = name in self._broker.global_parameters
        await self._finish(self._clear_global(name))
        return existed

    async def describe_vhost(self, vhost: str, changes: dict[str, Any]) -> None:
        """Change members of the description of a virtual host.

        Args:
            vhost: Name of the virtual host.
            changes: Members, and None for those that end.

        Raises:
            NoSuchVhostError: There is no such virtual host.
            MetadataError: The disk refused; nothing has changed.
        """
        await self._finish(self._describe(vhost, changes))

    async def _finish(self, change: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(self._alone(change))
        self._spawn(_end_of(task))
        await asyncio.shield(task)

    async def _alone(self, change: Coroutine[None, None, None]) -> None:
        # An import of definitions, which changes the same values, takes this lock too.
        async with self._vhost_changes.lock():
            await change

    async def _set_parameter(
        self, vhost: str, component: str, name: str, value: object, owner: ParameterOwner | None
    ) -> None:
        host, key = self._vhost(vhost), (component, name)
        document = parameter_document(vhost, component, name, value, owner)
        before = None
        if key in host.parameters:
            owner_before = host.parameter_owners.get(key)
            before = parameter_document(vhost, *key, host.parameters[key], owner_before)
        await self._put(host.parameters, key, value, document, before)
        host.set_parameter_owner(key, owner)
        self._broker.on_parameters_changed()
        self._record("parameter.set", vhost, name, component=component)

    async def _clear_parameter(self, vhost: str, component: str, name: str, only: object) -> None:
        kept = self._vhost(vhost).parameters
        if (component, name) in kept and (only is _ABSENT or only is kept[component, name]):
            value = kept[component, name]
            owners = self._vhost(vhost).parameter_owners
            document = parameter_document(
                vhost, component, name, value, owners.get((component, name))
            )
            await self._remove(kept, (component, name), PARAMETERS, document)
            owners.pop((component, name), None)
            self._broker.on_parameters_changed()
            self._record("parameter.cleared", vhost, name, component=component)
        elif (component, name) not in kept:
            # Its document may be damaged or missing: that is accepted now.
            document = parameter_document(vhost, component, name, None)
            await self._store.delete(PARAMETERS, vhost, document.name)

    async def _set_global(self, name: str, value: object) -> None:
        kept = self._broker.global_parameters
        before = global_parameter_document(name, kept[name]) if name in kept else None
        await self._put(kept, name, value, global_parameter_document(name, value), before)
        self._record("global_parameter.set", "", name)

    async def _clear_global(self, name: str) -> None:
        kept = self._broker.global_parameters
        if name in kept:
            document = global_parameter_document(name, kept[name])
            await self._remove(kept, name, GLOBAL_PARAMETERS, document)
            self._record("global_parameter.cleared", "", name)
        else:
            await self._store.delete(GLOBAL_PARAMETERS, "", name)

    async def _describe(self, vhost: str, changes: dict[str, Any]) -> None:
        host = self._vhost(vhost)
        merged = {**host.metadata, **changes}
        after = {name: value for name, value in merged.items() if value is not None}
        documents = self._broker.damaged_documents
        if after == host.metadata and not documents.has(VHOST_METADATA, vhost):
            return
        try:
            await self._store.put(vhost_metadata_document(vhost, after))
        except MetadataError:
            # The new document may be on the disk nevertheless.
            with suppress(MetadataError):
                if host.metadata:
                    await self._store.put(vhost_metadata_document(vhost, host.metadata))
                else:
                    await self._store.delete(VHOST_METADATA, vhost, VHOST_METADATA_NAME)
            raise
        host.metadata = after
        self._broker.audit.record("vhost.described", name=vhost, details=after)

    async def _put(
        self,
        kept: MutableMapping[Any, Any],
        key: object,
        value: object,
        document: Document,
        before: Document | None,
    ) -> None:
        """Write a document and keep its value; after a failure the one before is there again."""
        if before is None and len(kept) >= PARAMETERS_MAX:
            raise TooManyParametersError(f"the limit of parameters ({PARAMETERS_MAX}) is reached")
        try:
            await self._store.put(document)
        except MetadataError:
            with suppress(MetadataError):
                if before is None:
                    await self._store.delete(document.kind, document.vhost, document.name)
                else:
                    await self._store.put(before)
            raise
        kept[key] = value

    async def _remove(
        self, kept: MutableMapping[Any, Any], key: object, kind: str, document: Document
    ) -> None:
        try:
            await self._store.delete(kind, document.vhost, document.name)
        except MetadataError:
            with suppress(MetadataError):
                await self._store.put(document)
            raise
        del kept[key]

    def _record(self, event: str, vhost: str, name: str, **details: object) -> None:
        # Values may hold passwords: the address of a shovel, for example.
        self._broker.audit.record(event, vhost=vhost, name=name, details=details)

    def _vhost(self, name: str) -> VirtualHost:
        host = self._broker.vhosts.get(name)
        if host is None:
            raise NoSuchVhostError(f"vhost '{name}' does not exist")
        return host


async def _end_of(task: asyncio.Task[None]) -> None:
    """Return when a task has ended; its caller gets the result."""
    await asyncio.wait([task])
