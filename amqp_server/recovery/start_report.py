"""Report of what a start found in the data directory and did to it, as text and as JSON.

Its size is bounded: the worst queues come first, queues beyond the limit count only in the totals.
docs/operations.md, section 2, lists the fields.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amqp_server import __version__
from amqp_server.broker.damaged_documents import effect_of
from amqp_server.recovery.damaged_checkpoint import log_lost_checkpoint
from amqp_server.recovery.start_report_file import LISTS_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from amqp_server.recovery.cleaning import Cleaning
    from amqp_server.recovery.missing_parts import MissingPart
    from appendlog import RecoveryReport
    from metadata.loading import LoadReport
    from offsets import CheckpointRecovery, RedoRecovery

logger = logging.getLogger("amqp_server.start_report")

VERSION: Final = 1
"""Version of the JSON object."""
QUEUES_MAX: Final = 1000
RANGES_MAX: Final = 20
GROUPS_MAX: Final = 20
FILES_MAX: Final = 100


class Outcome(StrEnum):
    """State in which a start found data, from good to bad; the worst part counts."""

    CLEAN = "clean"
    """Nothing was torn, damaged or lost."""
    TORN = "torn"
    """A crash left half-written ends; no confirmed message is lost."""
    DAMAGED = "damaged"
    """Data that was on the disk cannot be read."""
    UNOPENED = "unopened"
    """A queue or exchange could not be recovered; its files are untouched."""


class MalformedDefinition(NamedTuple):
    """A definition with a valid checksum but an invalid value.

    Attributes:
        path: Path of its document.
        name: Name of the exchange or binding.
        reason: The value and what is wrong with it.
    """

    path: Path
    name: str
    reason: str

    @property
    def kind(self) -> str:
        """Kind of the document."""
        return self.path.parent.parent.name


@dataclass(frozen=True, slots=True)
class QueueReport:
    """Findings of a start about one queue.

    Attributes:
        vhost: Name of its virtual host.
        name: Name of the queue; for a hidden delay queue, the name of its delayed exchange.
        is_delay_queue: Whether it is such a hidden queue.
        recovery: Report of the log's recovery; None if the log could not be opened.
        ready: Ready messages in the queue.
        groups_ahead: Consumer groups that have settled offsets which the log has lost: name, and
            the end of what they have settled, exclusive.
        error: Why the log could not be opened; empty if it could.
    """

    vhost: str
    name: str
    is_delay_queue: bool = False
    recovery: RecoveryReport | None = None
    ready: int = 0
    groups_ahead: list[tuple[str, int]] = field(default_factory=list)
    error: str = ""

    @property
    def outcome(self) -> Outcome:
        """State in which the queue was found."""
        found = self.recovery
        if found is None:
            return Outcome.UNOPENED
        if found.is_damaged:
            return Outcome.DAMAGED
        return Outcome.TORN if found.cut_bytes else Outcome.CLEAN

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        fields: dict[str, Any] = {
            "vhost": _text(self.vhost),
            "name": _text(self.name),
            "is_delay_queue": self.is_delay_queue,
            "outcome": self.outcome.value,
        }
        found = self.recovery
        if found is None:
            return {**fields, "error": _text(self.error)}
        return {
            **fields,
            "directory": _text(str(found.directory)),
            "segments": found.segment_count,
            "scanned_bytes": found.scanned_bytes,
            "records": found.record_count,
            "ready": self.ready,
            "cut_bytes": found.cut_bytes,
            "damaged_chunks": found.damaged_chunks,
            "damaged_bytes": found.damaged_bytes,
            "foreign_files": [_text(each) for each in found.foreign_files[:FILES_MAX]],
            "lost_offsets": _lost_offsets(found),
            "lost": [list(each) for each in found.lost[:RANGES_MAX]],
            "groups_ahead": [
                {"group": _text(name), "settled_end": end}
                for name, end in self.groups_ahead[:GROUPS_MAX]
            ],
            "ahead_seconds": round(found.ahead_ns / 1e9, 3),
            "seconds": round(found.seconds, 6),
        }


@dataclass(slots=True)
class StartReport:
    """Findings and actions of one start.

    Attributes:
        was_clean: Whether the stop before it was clean.
        queues: Reports of all queues.
        documents: Number of metadata documents that were read.
        unreadable: Path, reason and kind of each document that could not be read.
        malformed: Exchanges and bindings whose definitions contain invalid values.
        checkpoint: Report of reading the checkpoint files.
        redo_torn_bytes: Bytes of the redo journal that a crash cut off.
        redo_damaged: Files of the redo journal with damaged records.
        redo_transactions: Transactions read from the redo journal.
        redo_left: Number of these that wait for a queue that could not be recovered.
        removed_logs: Number of logs of deleted queues that were removed.
        quarantined: Paths that a directory upgrade moved to quarantine because they belong to no
            queue or virtual host.
        foreign_paths: Paths among the logs that are no logs of this server; untouched.
        seconds: Duration of the recovery.
        is_dry_run: Whether nothing was changed.
        accepted_loss: Missing parts of the directory whose loss an operator has accepted.
    """

    was_clean: bool = True
    queues: list[QueueReport] = field(default_factory=list)
    documents: int = 0
    unreadable: list[tuple[Path, str, str]] = field(default_factory=list)
    malformed: list[MalformedDefinition] = field(default_factory=list)
    checkpoint: CheckpointRecovery | None = None
    redo_torn_bytes: int = 0
    redo_damaged: list[Path] = field(default_factory=list)
    redo_transactions: int = 0
    redo_left: int = 0
    removed_logs: int = 0
    quarantined: list[Path] = field(default_factory=list)
    foreign_paths: list[Path] = field(default_factory=list)
    seconds: float = 0.0
    is_dry_run: bool = False
    accepted_loss: Sequence[MissingPart] = ()

    def note_files(
        self,
        metadata: LoadReport,
        checkpoint: CheckpointRecovery,
        redo: RedoRecovery,
        *,
        was_clean: bool,
    ) -> None:
        """Record what was read before any queue was opened."""
        self.was_clean = was_clean
        self.documents = len(metadata.documents)
        self.unreadable = [(each.path, each.reason, each.kind) for each in metadata.unreadable]
        self.checkpoint = checkpoint
        log_lost_checkpoint(checkpoint, metadata)
        # Record counts, not the journal's messages: the report may live long.
        self.redo_transactions = len(redo.transactions)
        self.redo_torn_bytes = redo.torn_bytes
        self.redo_damaged = list(redo.damaged_files)

    def note_queues(
        self,
        queues: list[QueueReport],
        malformed: list[MalformedDefinition],
        *,
        redo_left: int,
        cleaning: Cleaning,
        seconds: float,
    ) -> None:
        """Record the result of opening the queues, and log the summary."""
        self.queues = queues
        self.malformed = malformed
        self.unreadable += [(each.path, each.reason, each.kind) for each in malformed]
        self.redo_left = redo_left
        self.removed_logs = cleaning.removed_logs
        self.quarantined = cleaning.quarantined
        self.foreign_paths = cleaning.foreign_paths
        self.seconds = seconds
        if not self.queues and self.outcome is Outcome.CLEAN:
            return
        totals = self.totals()
        logger.info(
            "recovered queues=%d ready=%d clean=%s damaged=%d records=%d segments=%d "
            "scanned_bytes=%d cut_bytes=%d damaged_chunks=%d lost_offsets=%d redone=%d "
            "outcome=%s seconds=%.3f",
            totals["queues"],
            totals["ready"],
            self.was_clean,
            totals["unopened_queues"] + len(malformed),
            totals["records"],
            totals["segments"],
            totals["scanned_bytes"],
            totals["cut_bytes"],
            totals["damaged_chunks"],
            totals["lost_offsets"],
            self.redo_transactions - redo_left,
            self.outcome,
            seconds,
        )

    @property
    def outcome(self) -> Outcome:
        """State of the worst part of the directory."""
        found = {queue.outcome for queue in self.queues}
        if Outcome.UNOPENED in found or self.unreadable:
            return Outcome.UNOPENED
        checkpoint = self.checkpoint
        damaged_files = self.redo_damaged + (checkpoint.damaged_files if checkpoint else [])
        if Outcome.DAMAGED in found or damaged_files or self.accepted_loss:
            return Outcome.DAMAGED
        torn_bytes = self.redo_torn_bytes + (checkpoint.torn_bytes if checkpoint else 0)
        return Outcome.TORN if Outcome.TORN in found or torn_bytes else Outcome.CLEAN

    def totals(self) -> dict[str, int]:
        """Return the sums over all queues."""
        opened = [queue.recovery for queue in self.queues if queue.recovery is not None]
        return {
            "queues": len(opened),
            "unopened_queues": len(self.queues) - len(opened),
            "segments": sum(each.segment_count for each in opened),
            "scanned_bytes": sum(each.scanned_bytes for each in opened),
            "records": sum(each.record_count for each in opened),
            "ready": sum(queue.ready for queue in self.queues),
            "cut_bytes": sum(each.cut_bytes for each in opened),
            "damaged_chunks": sum(each.damaged_chunks for each in opened),
            "damaged_bytes": sum(each.damaged_bytes for each in opened),
            "lost_offsets": sum(map(_lost_offsets, opened)),
            "unreadable_documents": len(self.unreadable),
        }

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values of bounded size; see docs/operations.md."""
        order = list(Outcome)
        queues = sorted(self.queues, key=lambda each: (-order.index(each.outcome), each.vhost))
        return {
            "version": VERSION,
            "server_version": __version__,
            "written_at": datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds"),
            LISTS_NAMES: True,
            "is_dry_run": self.is_dry_run,
            "outcome": self.outcome.value,
            "was_clean_stop": self.was_clean,
            "seconds": round(self.seconds, 6),
            "totals": self.totals(),
            "metadata": {
                "documents": self.documents,
                "unreadable": [
                    {
                        "path": _text(str(path)),
                        "reason": _text(reason),
                        "effect": effect_of(kind),
                    }
                    for path, reason, kind in self.unreadable[:FILES_MAX]
                ],
                "malformed": [_text(each.name) for each in self.malformed[:FILES_MAX]],
            },
            "checkpoint": self._checkpoint_json(),
            "redo": self._redo_json(),
            "removed_logs": self.removed_logs,
            "given_up": [
                {"part": each.part.value, "path": _text(str(each.path)), "text": _text(each.text)}
                for each in self.accepted_loss
            ],
            "quarantined": [_text(str(path)) for path in self.quarantined[:FILES_MAX]],
            "quarantined_count": len(self.quarantined),
            "strangers": [_text(str(path)) for path in self.foreign_paths[:FILES_MAX]],
            "strangers_count": len(self.foreign_paths),
            "queues": [queue.as_json() for queue in queues[:QUEUES_MAX]],
            "queues_left_out": max(len(queues) - QUEUES_MAX, 0),
        }

    def _checkpoint_json(self) -> dict[str, Any]:
        found = self.checkpoint
        if found is None:
            return {}
        return {
            "generation": found.generation,
            "rounds": found.rounds,
            "sources": [_text(path.name) for path in found.sources],
            "torn_bytes": found.torn_bytes,
            "damaged_files": [_text(path.name) for path in found.damaged_files[:FILES_MAX]],
        }

    def _redo_json(self) -> dict[str, Any]:
        return {
            "transactions": self.redo_transactions,
            "left": self.redo_left,
            "torn_bytes": self.redo_torn_bytes,
            "damaged_files": [_text(path.name) for path in self.redo_damaged[:FILES_MAX]],
        }


def _lost_offsets(report: RecoveryReport) -> int:
    return sum(end - start for start, end in report.lost)


def _text(name: str) -> str:
    """Return a name as valid UTF-8: octets that are not UTF-8 become backslash escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
