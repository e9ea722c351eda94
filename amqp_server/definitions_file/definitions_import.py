"""Imports definitions: checks all of them, then makes all changes or none.

| step                                          | where  | if it fails, or the process ends |
|-----------------------------------------------|--------|----------------------------------|
| check each entry, plan what becomes of it     | turns  | nothing has changed              |
| create objects in memory, encode documents    | turns  | they are removed again           |
| write all documents to the batch's redo file  | worker | they are removed again           |
| let them work, report success                 | turns  | the next start has all of them   |
| write each document to its own file, one sync | worker | the next start does it           |
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from amqp_server.broker.job import done_in_turns
from amqp_server.definitions_file.errors import (
    DefinitionsError,
    ImportFailedError,
    InvalidDefinitionsError,
)
from amqp_server.definitions_file.import_changes import ImportChanges
from amqp_server.definitions_file.import_plan import ImportPlan
from amqp_server.definitions_file.import_report import Outcome
from amqp_server.definitions_file.parts.all_parts import all_parts
from amqp_server.definitions_file.parts.bindings import BindingsPart
from amqp_server.protocol.errors import AmqpError
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.parameters import ParameterOwner
    from amqp_server.broker.policies.policies import Policies
    from amqp_server.broker.vhost_changes import VhostChanges
    from amqp_server.definitions_file.entry import Entry
    from amqp_server.definitions_file.import_report import ImportReport
    from metadata.document import Document

logger = logging.getLogger("amqp_server.definitions_file.definitions_import")

MISTAKES_MAX: Final = 100
"""Mistakes that an error has; more are counted."""


class DefinitionsImport:
    """Carries out imports, one at a time. The event loop owns it.

    An import runs to its end even if its caller is cancelled.

    Args:
        broker: Virtual hosts, exchanges and queues.
        access: Users and permissions.
        policies: Applies policies.
        vhost_changes: Creates and deletes virtual hosts.
        spawn: Runs a coroutine in the background; the server awaits it when it stops.

    Attributes:
        parts: What the sections mean, by name.
    """

    def __init__(
        self,
        broker: Broker,
        access: AccessControl,
        policies: Policies,
        vhost_changes: VhostChanges,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._broker = broker
        self._access = access
        self._vhost_changes = vhost_changes
        self._spawn = spawn
        self._policies = policies
        self.parts = all_parts(broker, access, policies)
        self._one_at_a_time = asyncio.Lock()
        self._finishing: set[asyncio.Task[None]] = set()

    async def run(
        self,
        entries: Iterable[Entry],
        *,
        vhost: str | None = None,
        rabbit_version: str = "",
        importer: ParameterOwner | None = None,
        is_dry_run: bool = False,
        extra: Iterable[Document] = (),
        on_done: Callable[[int], None] | None = None,
    ) -> ImportReport:
        """Import definitions; return when they would survive a crash.

        Args:
            entries: Entries in the order of `SECTIONS`; read in slices.
            vhost: Virtual host of a file that names none; None for a file of a whole cluster.
            rabbit_version: Version of RabbitMQ that wrote the file; empty if it does not say.
            importer: The user who imports; None: an administrator.
            is_dry_run: Whether to check and plan only.
            extra: Documents that are written in the same batch.
            on_done: Called with the number of entries that are checked or carried out.

        Raises:
            InvalidDefinitionsError: The entries have mistakes; nothing has changed.
            ImportFailedError: The disk refused, or a client was in the way; nothing has changed.
        """
        plan = ImportPlan(self._broker.vhosts, vhost, rabbit_version, importer)
        work = self._run(entries, plan, is_dry_run, extra, on_done or _ignore)
        task = asyncio.ensure_future(work)
        self._spawn(_end_of(task))
        return await asyncio.shield(task)

    async def _run(
        self,
        entries: Iterable[Entry],
        plan: ImportPlan,
        is_dry_run: bool,
        extra: Iterable[Document],
        on_done: Callable[[int], None],
    ) -> ImportReport:
        async with (
            self._one_at_a_time,
            self._vhost_changes.lock(),
            self._policies.lock(),
            self._access.lock(),
        ):
            await self._plan(entries, plan, on_done)
            if not is_dry_run:
                await self._carry_out(plan, extra, on_done)
                # What applies the changed policies lines up for them now.
                await asyncio.sleep(0)
        # Changed policies are applied when they may be changed again.
        await self._policies.until_done()
        return plan.report

    async def _plan(
        self, entries: Iterable[Entry], plan: ImportPlan, on_done: Callable[[int], None]
    ) -> None:
        vhost = plan.only_vhost
        if vhost is not None and vhost not in self._broker.vhosts:
            raise DefinitionsError(f"vhost '{vhost}' does not exist")
        mistakes: list[str] = []
        mistake_count = 0

        def steps() -> Iterator[None]:
            nonlocal mistake_count
            section = ""
            for count, entry in enumerate(entries, 1):
                part = self.parts[entry.section]
                if entry.section != section and isinstance(part, BindingsPart):
                    yield from part.prepare(plan)
                section = entry.section
                try:
                    part.plan(entry, plan)
                except DefinitionsError as error:
                    mistake_count += 1
                    if len(mistakes) < MISTAKES_MAX:
                        mistakes.append(str(error))
                on_done(count)
                yield

        turn = self._broker.turn
        await done_in_turns(turn, turn.upkeep, steps(), "check of definitions")
        if mistakes:
            raise InvalidDefinitionsError(mistakes, mistake_count)

    async def _carry_out(
        self, plan: ImportPlan, extra: Iterable[Document], on_done: Callable[[int], None]
    ) -> None:
        documents = list(extra)
        if not plan.steps and not documents:
            return
        try:
            for name in plan.new_vhosts:
                await self._vhost_changes.until_removed(name)
        except MetadataError as error:
            raise ImportFailedError(str(error)) from error
        turn = self._broker.turn
        batch = self._broker.definitions.open_batch()
        changes = ImportChanges(self._broker, batch)

        def steps() -> Iterator[None]:
            for document in documents:
                changes.put(document)
            for count, step in enumerate(plan.steps, 1):
                step(changes)
                on_done(count)
                yield

        is_closed = False
        try:
            await done_in_turns(turn, turn.upkeep, steps(), "import of definitions")
            is_closed = True
            await batch.commit()
        except (DefinitionsError, AmqpError, MetadataError) as cause:
            failure = ImportFailedError(f"nothing was imported: {cause.args[0]}")
            await done_in_turns(turn, turn.upkeep, changes.undo(failure), "undo of an import")
            if not is_closed:
                batch.cancel()
            raise failure from cause
        await done_in_turns(turn, turn.upkeep, changes.finish(), "end of an import")
        # Not by `spawn`: a stop ends it when it closes the store.
        finishing = asyncio.ensure_future(_finished(batch.finished()))
        self._finishing.add(finishing)
        finishing.add_done_callback(self._finishing.discard)
        report = plan.report
        logger.info(
            "definitions imported created=%d changed=%d equal=%d different=%d skipped=%d",
            *(
                report.total(each)
                for each in (
                    Outcome.CREATED,
                    Outcome.CHANGED,
                    Outcome.EQUAL,
                    Outcome.DIFFERENT,
                    Outcome.SKIPPED,
                )
            ),
        )


async def _finished(writing: Coroutine[None, None, None]) -> None:
    """Wait for the documents' own files; the disk may refuse until the server stops."""
    try:
        await writing
    except MetadataError as error:
        logger.warning("import is completed by the next start error=%s", error)


async def _end_of(task: asyncio.Task[ImportReport]) -> None:
    """Return when a task has ended; its caller gets the result."""
    await asyncio.wait([task])


def _ignore(_count: int) -> None:
    """Do nothing: no caller asked for progress."""
