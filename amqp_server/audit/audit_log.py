"""Records who changed what; a thread writes it to the data directory."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from amqp_server.audit.actor import SERVER, Actor, acting
from amqp_server.audit.audit_files import DIRECTORY_NAME, AuditFiles
from amqp_server.audit.audit_writer import BUFFER_BYTES_MAX, AuditWriter
from amqp_server.audit.entry import encode_entry
from amqp_server.audit.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from amqp_server.audit.refusals import Timer

CHANGES: Final = "changes"
"""Files of everything that stays: clients that connect often do not rotate these away."""
SESSIONS: Final = "sessions"
"""Files of logins, of connections, and of queues that end with their connection."""
KINDS: Final = (CHANGES, SESSIONS)


class AuditLog:
    """The audit log of one server. The event loop owns it.

    `record` encodes the event and puts it into a bounded buffer; it never waits. Before `start`,
    after `stop`, and if the log is off, it does nothing. Publishes, deliveries and acknowledgements
    are never recorded.

    Args:
        storage_path: Data directory; the files lie in its directory `audit`.
        file_bytes_max: Size at which a file is complete, in bytes.
        files_max: Files of each kind that are kept; 0 switches the log off.
        call_later: Calls a function after some seconds.
        buffer_bytes_max: Bytes of each kind that may wait for the disk.
    """

    def __init__(
        self,
        storage_path: Path,
        file_bytes_max: int,
        files_max: int,
        call_later: Callable[[float, Callable[[], None]], Timer],
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
    ) -> None:
        directory = storage_path / DIRECTORY_NAME
        self._is_off = files_max == 0
        self._writers = {
            kind: AuditWriter(
                AuditFiles(directory, kind, file_bytes_max, files_max),
                _lost_entry,
                buffer_bytes_max,
            )
            for kind in KINDS
        }
        self._is_running = False
        self._refusals = Refusals(self._report_refusals, call_later)

    def start(self) -> None:
        """Begin to record."""
        if self._is_off:
            return
        self._is_running = True
        for kind, writer in self._writers.items():
            writer.start(f"audit {kind}")

    async def stop(self) -> None:
        """Record nothing more; return when the disk has everything, or has refused it."""
        if not self._is_running:
            return
        self._refusals.finish()
        self._is_running = False
        for writer in self._writers.values():
            await asyncio.to_thread(writer.stop)

    def record(
        self,
        event: str,
        actor: Actor | None = None,
        *,
        vhost: str = "",
        name: str = "",
        details: Mapping[str, object] | None = None,
        is_session: bool = False,
    ) -> None:
        """Record an event. Never blocks, never fails.

        Args:
            event: The thing and what happened to it: `queue.deleted`.
            actor: Who did it; None takes whom the present task acts for (`acting`).
            vhost: Virtual host of the object; empty if it has none.
            name: Name of the object; empty if there is none.
            details: More about it, never a password or a token: texts, octets, numbers, truth
                values, tables and lists. Long ones are cut.
            is_session: Whether it concerns only one connection and ends with it.
        """
        if self._is_running:
            who = acting.get() if actor is None else actor
            line = encode_entry(time.time_ns(), event, who, vhost, name, details)
            self._writers[SESSIONS if is_session else CHANGES].put(line)

    def record_refusal(self, actor: Actor, reason: str, *, vhost: str = "") -> None:
        """Record that a client was not let in; many of one address become sums.

        Args:
            actor: Who tried; the user is the one that it claimed to be.
            reason: Why it was refused.
            vhost: Virtual host that it named; empty if it has named none.
        """
        if self._is_running and self._refusals.is_first(actor, reason):
            details = {"reason": reason}
            self.record(
                "user.authentication.failure", actor, vhost=vhost, details=details, is_session=True
            )

    def _report_refusals(self, address: str, details: dict[str, object]) -> None:
        self.record(
            "user.authentication.failure", Actor("", address), details=details, is_session=True
        )


def _lost_entry(count: int) -> bytes:
    return encode_entry(time.time_ns(), "audit.lost", SERVER, "", "", {"events": count})
