"""Running imports: publishes the batches of clients and records what was imported.

Each batch is published, made durable and recorded in the import's state before the client gets its
reply. If a crash cuts a batch, the next start finds it by the id in its chunks (`import_state`),
before retention can remove any of them.
"""

from __future__ import annotations

import asyncio
import logging
from copy import deepcopy
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from amqp_server.admin.imports.batch_file import BATCH_BYTES, BatchFormatError, decode_batch
from amqp_server.admin.imports.import_state import ImportState, ImportStates
from amqp_server.admin.imports.message_check import fault_of
from amqp_server.broker.transfers.safe_publishes import SafePublishes
from appendlog.layout.message import PERSISTENT, published_again

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from amqp_server.base.config import ServerConfig
    from amqp_server.broker.queue import Queue
    from appendlog import FileSystem

logger = logging.getLogger("amqp_server.imports.imports")

ALARM_SECONDS_MAX: Final = 60.0
"""Seconds that a batch waits for an alarm to end."""
PAUSE_SECONDS: Final = 0.25
_OVERHEAD_BYTES: Final = 1 << 20


class ImportRefusedError(Exception):
    """A batch was refused, or only a part of it was imported; the text is one line.

    Attributes:
        taken: Number of messages that were imported before the queue was full; None if it is not
            known, or nothing was full.
    """

    def __init__(self, text: str, taken: int | None = None) -> None:
        super().__init__(text)
        self.taken = taken


class ImportOvertakenError(ImportRefusedError):
    """Another client has begun the same import, or the server has restarted since."""


@dataclass(slots=True)
class OpenImport:
    """An import that a client has begun.

    Attributes:
        queue: Queue that gets the messages.
        state: What has been imported.
        token: Token of the client that began last; no other client may continue.
        may_drop: Whether the queue may drop its oldest messages for these, if its length is
            limited.
        idle: Set while no batch is being imported.
    """

    queue: Queue
    state: ImportState
    token: str
    may_drop: bool = True
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Start idle."""
        self.idle.set()

    @property
    def batch_name(self) -> str:
        """Return the name of the batch file."""
        return f"{self.state.name}-{self.token}"


class Imports:
    """All imports of one server. The event loop owns it.

    Args:
        config: Settings: the data directory, and the largest body that is accepted.
        filesystem: File operations.
        is_alarmed: Returns whether an alarm is on, so that publishers have to wait.
    """

    def __init__(
        self, config: ServerConfig, filesystem: FileSystem, is_alarmed: Callable[[], bool]
    ) -> None:
        self._states = ImportStates(config.storage_path, filesystem)
        self._files = filesystem
        self._body_bytes_max = config.max_message_bytes
        self._is_alarmed = is_alarmed
        self._open: dict[str, OpenImport] = {}

    def settle_all(self, queues: Iterable[Queue]) -> None:
        """Count what a crash has left of unfinished batches; blocks. Called at the start.

        It must run before retention removes anything. What cannot be read is left to `begin`.
        """
        try:
            self._states.remove_batches()
            unsettled = [state for state in self._states.all() if state.is_open]
        except OSError as error:
            logger.warning("imports not checked error=%s", error)
            return
        by_incarnation = {queue.incarnation: queue for queue in queues} if unsettled else {}
        for state in unsettled:
            queue = by_incarnation.get(state.incarnation)
            if queue is None or not queue.is_journaled:
                continue
            try:
                self._settle(state, queue)
            except OSError as error:
                logger.warning("import not settled queue=%s error=%s", queue.name, error)

    async def look(self, queue: Queue, source: str) -> ImportState:
        """Return how much of an export has been imported; changes nothing.

        Raises:
            OSError: The state cannot be read.
        """
        state = ImportState(queue.incarnation, source)
        opened = self._open.get(state.name)
        if opened is not None:
            return opened.state
        found = await asyncio.to_thread(self._states.read, state.name)
        return state if found is None else found

    async def begin(
        self, queue: Queue, source: str, *, again: bool, may_drop: bool = True
    ) -> OpenImport:
        """Begin an import, or continue it.

        Args:
            queue: Durable queue that gets the messages.
            source: Name of the exported queue; must be the same for every import of it.
            again: Whether to import everything once more.
            may_drop: Whether a queue with a length limit may drop its oldest messages for these;
                if not, it refuses what it has no room for.

        Raises:
            ImportRefusedError: A batch of the import has been running for a minute.
            OSError: The state cannot be read or written.
        """
        state = ImportState(queue.incarnation, source)
        if (at_work := self._open.get(state.name)) is not None:
            # Its client may have been killed; wait, because its last batch is imported all the
            # same.
            try:
                async with asyncio.timeout(ALARM_SECONDS_MAX):
                    await at_work.idle.wait()
            except TimeoutError as error:
                reason = "another import of the same export is running"
                raise ImportOvertakenError(reason) from error
        opened = self._open.get(state.name)
        if opened is not None:
            state = deepcopy(opened.state)
        else:
            found = await asyncio.to_thread(self._states.read, state.name)
            state = state if found is None else found
            if state.is_open:
                await asyncio.to_thread(self._settle, state, queue)
        if again:
            state.run += 1
            state.ranges = []
            state.partial = {}
        state.is_open = True
        state.floor = queue.store.end_offset
        await asyncio.to_thread(self._states.write, state)
        opened = OpenImport(queue, state, token_hex(8), may_drop)
        self._open[state.name] = opened
        return opened

    def batch_path(self, opened: OpenImport) -> Path:
        """Return the path where the client of an import writes a batch."""
        return self._states.batch_path(opened.batch_name)

    async def append(self, name: str, token: str, start: int, end: int) -> ImportState:
        """Import a batch; it is on the disk when this returns.

        Args:
            name: Name of the import.
            token: Token of the client.
            start: Offset of the first message in the exported queue.
            end: Offset after the last message, exclusive.

        Raises:
            ImportRefusedError: The batch was refused or imported in part; the state contains the
                part.
            OSError: The batch cannot be read, or the state cannot be written.
        """
        opened = self._found(name, token)
        opened.idle.clear()
        try:
            messages = await asyncio.to_thread(self._read, opened, start)
            await self._until_no_alarm()
            taken = await self._put(opened, messages, start, end)
            await asyncio.to_thread(self._states.write, opened.state)
        except BaseException:
            # The log knows what was imported of the batch; the next `begin` counts it.
            self._open.pop(name, None)
            raise
        finally:
            opened.idle.set()
        if taken < len(messages):
            raise ImportRefusedError(f"queue '{opened.queue.name}' is full and refuses more", taken)
        return opened.state

    async def end(self, name: str, token: str) -> ImportState:
        """End an import that has no running batch.

        Raises:
            ImportRefusedError: The import is another client's.
            OSError: The state cannot be written.
        """
        opened = self._found(name, token)
        opened.state.is_open = False
        await asyncio.to_thread(self._states.write, opened.state)
        await asyncio.to_thread(self._states.remove_batch, opened.batch_name)
        del self._open[name]
        return opened.state

    def _found(self, name: str, token: str) -> OpenImport:
        opened = self._open.get(name)
        if opened is None or opened.token != token or not opened.idle.is_set():
            raise ImportOvertakenError("another import of the same export has begun since")
        return opened

    def _settle(self, state: ImportState, queue: Queue) -> None:
        """Count what a log contains of an unfinished batch. Blocks.

        Raises:
            OSError: The log cannot be read, or the state cannot be written.
        """
        log = queue.store.log
        for batch_id, count in log.transaction_counts(state.floor).items():
            start = state.batch_start(batch_id)
            if start is not None and count:
                state.partial[start] = state.partial.get(start, 0) + count
                state.imported += count
                logger.info("import cut short queue=%s messages=%d", queue.name, count)
        state.is_open = False
        state.floor = log.log_end_offset
        self._states.write(state)

    def _read(self, opened: OpenImport, start: int) -> list[bytes]:
        """Return the checked messages of a batch, as they are published. Blocks.

        Raises:
            ImportRefusedError: The batch or a message is invalid.
            OSError: The file cannot be read.
        """
        path = self._states.batch_path(opened.batch_name)
        size = self._files.file_size(path)
        most = BATCH_BYTES + self._body_bytes_max + _OVERHEAD_BYTES
        if size > most:
            raise ImportRefusedError(f"a batch has {size} bytes, the largest allowed is {most}")
        try:
            messages = decode_batch(self._files.read_file(path, size))
        except BatchFormatError as error:
            raise ImportRefusedError(str(error)) from error
        for at, message in enumerate(messages):
            if fault := fault_of(message, self._body_bytes_max):
                raise ImportRefusedError(
                    f"message {at} of the batch from offset {start} on is invalid: {fault}"
                )
        return list(map(published_again, messages))

    async def _put(self, opened: OpenImport, messages: list[bytes], start: int, end: int) -> int:
        """Publish a batch and record it; return for how many messages the queue had room.

        Raises:
            ImportRefusedError: The queue cannot take it; the log knows which part it took.
        """
        queue = opened.queue

        def check() -> None:
            if queue.is_deleted:
                raise ImportRefusedError(f"queue '{queue.name}' was deleted")
            if queue.is_failed:
                raise ImportRefusedError(f"the log of queue '{queue.name}' cannot be written")

        publishes = SafePublishes(queue, check, may_drop=opened.may_drop)
        count = await publishes.publish(messages, opened.state.batch_id(start))
        await publishes.until_safe()
        # The queue's own durability may promise less than an import does.
        await queue.store.make_durable()
        check()
        if publishes.is_refused:
            raise ImportRefusedError(f"the log of queue '{queue.name}' cannot be written")
        state = deepcopy(opened.state)
        if count == len(messages):
            state.add(start, end)
        elif not opened.may_drop and end - start == len(messages):
            # Nothing is left out, so what was taken is a range; the client goes on behind it.
            if count:
                state.add(start, start + count)
        else:
            kept = [m for m in messages[:count] if queue.makes_persistent or m[0] & PERSISTENT]
            state.partial[start] = state.partial.get(start, 0) + len(kept)
        state.imported += count
        state.floor = queue.store.end_offset
        opened.state = state
        return count

    async def _until_no_alarm(self) -> None:
        """Wait for an alarm to end.

        Raises:
            ImportRefusedError: The alarm lasts too long.
        """
        waited_seconds = 0.0
        while self._is_alarmed():
            if waited_seconds >= ALARM_SECONDS_MAX:
                raise ImportRefusedError(
                    "memory or disk space is low, publishers are blocked: try again later"
                )
            await asyncio.sleep(PAUSE_SECONDS)
            waited_seconds += PAUSE_SECONDS
