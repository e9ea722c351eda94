"""Imports at work: batches of messages that a client hands over, published and remembered.

One batch at a time: it is published, on the disk for good, and noted in the import's state
before the client hears of it. A batch that a crash has cut is found by the id that its chunks
carry (`import_state`), before retention may take any of them.
"""

from __future__ import annotations

import asyncio
import logging
from copy import deepcopy
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from amqp_server.broker.transfers.safe_publishes import SafePublishes
from amqp_server.imports.batch_file import BATCH_BYTES, BatchFormatError, decode_batch
from amqp_server.imports.import_state import ImportState, ImportStates
from amqp_server.imports.message_check import fault_of
from appendlog.layout.message import PERSISTENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from amqp_server.broker.queue import Queue
    from amqp_server.config import ServerConfig
    from appendlog import FileSystem

logger = logging.getLogger(__name__)

ALARM_SECONDS_MAX: Final = 60.0
"""How long a batch waits for an alarm to end."""
PAUSE_SECONDS: Final = 0.25
_OVERHEAD_BYTES: Final = 1 << 20


class ImportRefusedError(Exception):
    """A batch that was not taken, or not all of it; the text is one line."""


class ImportOvertakenError(ImportRefusedError):
    """Somebody else has begun the same import, or the server has started since."""


@dataclass(slots=True)
class OpenImport:
    """An import that a client has begun.

    Attributes:
        queue: Where its messages go.
        state: What has come.
        token: Of the client that began last: no other may go on.
        idle: Set unless a batch is on its way.
    """

    queue: Queue
    state: ImportState
    token: str
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Begin without a batch."""
        self.idle.set()

    @property
    def batch_name(self) -> str:
        """Return what the file of a batch is called."""
        return f"{self.state.name}-{self.token}"


class Imports:
    """All imports of one server. The event loop owns it.

    Args:
        config: Where its files are, and the largest body that it accepts.
        filesystem: Operations on files.
        is_alarmed: Tells whether publishers have to wait.
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
        """Find out what a crash has left of batches; blocking, at the start.

        Before retention may remove anything. What cannot be read is left for `begin`.
        """
        try:
            self._states.remove_batches()
            unsettled = [state for state in self._states.all() if state.is_open]
        except OSError as error:
            logger.warning("imports not looked at error=%s", error)
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
        """Return what has come of an export, and change nothing.

        Raises:
            OSError: The state cannot be read.
        """
        state = ImportState(queue.incarnation, source)
        opened = self._open.get(state.name)
        if opened is not None:
            return opened.state
        found = await asyncio.to_thread(self._states.read, state.name)
        return state if found is None else found

    async def begin(self, queue: Queue, source: str, *, again: bool) -> OpenImport:
        """Begin an import, or go on with it.

        Args:
            queue: A durable one.
            source: Names the queue that was exported, the same each time.
            again: Whether all of it is to come once more.

        Raises:
            ImportRefusedError: A batch of it is on its way, and has been for a minute.
            OSError: The state cannot be read or written.
        """
        state = ImportState(queue.incarnation, source)
        if (at_work := self._open.get(state.name)) is not None:
            # Of a client that was killed, perhaps: its last batch comes all the same.
            try:
                async with asyncio.timeout(ALARM_SECONDS_MAX):
                    await at_work.idle.wait()
            except TimeoutError as error:
                reason = "another import of the same export is at work"
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
            state.ranges, state.partial = [], {}
        state.is_open, state.floor = True, queue.store.end_offset
        await asyncio.to_thread(self._states.write, state)
        opened = OpenImport(queue, state, token_hex(8))
        self._open[state.name] = opened
        return opened

    def batch_path(self, opened: OpenImport) -> Path:
        """Return where the client of an import leaves the messages of a batch."""
        return self._states.batch_path(opened.batch_name)

    async def append(self, name: str, token: str, start: int, end: int) -> ImportState:
        """Take a batch; it is on the disk for good when this returns.

        Args:
            name: Of the import.
            token: Of the client.
            start: First offset of it in the exported queue.
            end: Behind the last one.

        Raises:
            ImportRefusedError: It was not taken, or not all of it; what was is in the state.
            OSError: The batch cannot be read, or the state cannot be written.
        """
        opened = self._found(name, token)
        opened.idle.clear()
        try:
            messages = await asyncio.to_thread(self._read, opened, start)
            await self._until_no_alarm()
            is_whole = await self._put(opened, messages, start, end)
            await asyncio.to_thread(self._states.write, opened.state)
        except BaseException:
            # What has come of it is for the log to say.
            self._open.pop(name, None)
            raise
        finally:
            opened.idle.set()
        if not is_whole:
            raise ImportRefusedError(f"queue '{opened.queue.name}' is full and refuses more")
        return opened.state

    async def end(self, name: str, token: str) -> ImportState:
        """End an import: nothing of it is on its way.

        Raises:
            ImportRefusedError: It is not this client's.
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
        """Count what a log has of an unfinished batch. Blocking.

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
        state.is_open, state.floor = False, log.log_end_offset
        self._states.write(state)

    def _read(self, opened: OpenImport, start: int) -> list[bytes]:
        """Return the messages of a batch, checked. Blocking.

        Raises:
            ImportRefusedError: Something is wrong with them.
            OSError: The file cannot be read.
        """
        path = self._states.batch_path(opened.batch_name)
        size = self._files.file_size(path)
        most = BATCH_BYTES + self._body_bytes_max + _OVERHEAD_BYTES
        if size > most:
            raise ImportRefusedError(f"a batch of {size} bytes, at most {most} are taken")
        try:
            messages = decode_batch(self._files.read_file(path, size))
        except BatchFormatError as error:
            raise ImportRefusedError(str(error)) from error
        for at, message in enumerate(messages):
            if fault := fault_of(message, self._body_bytes_max):
                raise ImportRefusedError(
                    f"message {at} of the batch from offset {start} on is none: {fault}"
                )
        return messages

    async def _put(self, opened: OpenImport, messages: list[bytes], start: int, end: int) -> bool:
        """Publish a batch and note it; return whether there was room for all of it.

        Raises:
            ImportRefusedError: The queue cannot take it; what it took is for the log to say.
        """
        queue = opened.queue

        def check() -> None:
            if queue.is_deleted:
                raise ImportRefusedError(f"queue '{queue.name}' was deleted")
            if queue.store.is_failed:
                raise ImportRefusedError(f"the log of queue '{queue.name}' cannot be written")

        publishes = SafePublishes(queue, check)
        count = await publishes.publish(messages, opened.state.batch_id(start))
        await publishes.until_safe()
        # Its own durability may promise less than an import does.
        await queue.store.make_durable()
        check()
        if publishes.is_refused:
            raise ImportRefusedError(f"the log of queue '{queue.name}' cannot be written")
        state = deepcopy(opened.state)
        is_whole = count == len(messages)
        if is_whole:
            state.add(start, end)
        else:
            kept = [m for m in messages[:count] if queue.is_stream or m[0] & PERSISTENT]
            state.partial[start] = state.partial.get(start, 0) + len(kept)
        state.imported += count
        state.floor = queue.store.end_offset
        opened.state = state
        return is_whole

    async def _until_no_alarm(self) -> None:
        """Wait for an alarm to end.

        Raises:
            ImportRefusedError: It does not.
        """
        waited_seconds = 0.0
        while self._is_alarmed():
            if waited_seconds >= ALARM_SECONDS_MAX:
                raise ImportRefusedError("memory or disk space is low, publishers have to wait")
            await asyncio.sleep(PAUSE_SECONDS)
            waited_seconds += PAUSE_SECONDS
