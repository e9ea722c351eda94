"""Records who changed what; a thread writes it to the data directory."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.audit.actor import SERVER, Actor, acting
from amqp_server.audit.audit_files import DIRECTORY_NAME, AuditFiles
from amqp_server.audit.audit_writer import BUFFER_BYTES_MAX, AuditWriter
from amqp_server.audit.entry import encode_entry
from amqp_server.audit.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from amqp_server.audit.refusals import Timer

    Attributes = Callable[[], Mapping[str, object]]
    """Returns attributes of an event that the log does not have; called only for a listener."""

    class EventListener(Protocol):
        """Called for each event, whether the log is on or off."""

        def __call__(
            self,
            name: str,
            actor: Actor,
            *,
            vhost: str,
            object_name: str,
            details: Mapping[str, object] | None,
            attributes: Attributes | None,
        ) -> None:
            """Handle an event; never waits, never fails."""


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

    Attributes:
        on_event: Called for each event too, also while the log is off; None: no listener.
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
        self.on_event: EventListener | None = None
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
        attributes: Attributes | None = None,
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
            attributes: For `on_event`: attributes that the log does not have.
        """
        if not self._is_running and self.on_event is None:
            return
        who = acting.get() if actor is None else actor
        if self.on_event is not None:
            self.on_event(
                event, who, vhost=vhost, object_name=name, details=details, attributes=attributes
            )
        self._write(event, who, vhost, name, details, is_session=is_session)

    def _write(
        self,
        event: str,
        who: Actor,
        vhost: str,
        name: str,
        details: Mapping[str, object] | None,
        *,
        is_session: bool,
    ) -> None:
        if self._is_running:
            line = encode_entry(time.time_ns(), event, who, vhost, name, details)
            self._writers[SESSIONS if is_session else CHANGES].put(line)

    def record_refusal(
        self, actor: Actor, reason: str, *, vhost: str = "", attributes: Attributes | None = None
    ) -> None:
        """Record that a client was not let in; many of one address become sums.

        Args:
            actor: Who tried; the user is the one that it claimed to be.
            reason: Why it was refused.
            vhost: Virtual host that it named; empty if it has named none.
            attributes: As in `record`.
        """
        event, details = "user.authentication.failure", {"reason": reason}
        if self.on_event is not None:
            self.on_event(
                event, actor, vhost=vhost, object_name="", details=details, attributes=attributes
            )
        if self._is_running and self._refusals.is_first(actor, reason):
            self._write(event, actor, vhost, "", details, is_session=True)

    def _report_refusals(self, address: str, details: dict[str, object]) -> None:
        event, actor = "user.authentication.failure", Actor("", address)
        self._write(event, actor, "", "", details, is_session=True)


def _lost_entry(count: int) -> bytes:
    return encode_entry(time.time_ns(), "audit.lost", SERVER, "", "", {"events": count})
