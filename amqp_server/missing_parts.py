"""Telling a data directory that lost a whole part from one that never had it.

A disk that is not mounted, or a copy that was made of some directories only, looks like a directory
in which nothing was ever written. A start on it would bring up empty queues, and give what lies on
that disk up for ever. So it is refused, until the part is back or an operator gives it up.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from amqp_server.broker.definition_values import InvalidDefinitionError
from amqp_server.broker.definitions import (
    DEFAULT_VHOST,
    VHOSTS,
    is_deletion_note,
    names_queue,
    queue_from,
)
from amqp_server.start_report_file import REPORT_NAME
from appendlog import FileSystem
from metadata.log_directories import find_logs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from metadata.document import Document
    from metadata.loading import LoadReport


class Part(StrEnum):
    """A part of a data directory, by the name of its directory."""

    LOGS = "logs"
    DEFINITIONS = "metadata"
    CHECKPOINTS = "offsets"


ALL_PARTS = frozenset(Part)
_NOUNS = {
    Part.LOGS: "the logs",
    Part.DEFINITIONS: "the definitions",
    Part.CHECKPOINTS: "the checkpoints",
}


@dataclass(frozen=True, slots=True)
class MissingPart:
    """A part that is not there, though the rest of the directory says that it was.

    Attributes:
        part: Which one.
        path: Its directory.
        text: What is missing, and what tells of it; no full stop.
    """

    part: Part
    path: Path
    text: str


def missing_parts(
    storage_path: Path,
    report: LoadReport,
    known_ends: Mapping[UUID, int],
    *,
    has_checkpoints: bool,
) -> list[MissingPart]:
    """Return the parts of a data directory that were lost as a whole. Changes nothing.

    Args:
        storage_path: The data directory.
        report: What was found in its `metadata`.
        known_ends: Offset below which each log was on the disk, as the checkpoints know it.
        has_checkpoints: Whether there is a checkpoint file, readable or not.
    """
    has_run = (storage_path / REPORT_NAME).exists()
    found = [
        _missing_logs(storage_path, report, known_ends),
        _missing_definitions(storage_path, report, has_run=has_run),
    ]
    if has_run and not has_checkpoints:
        # A start writes its first round before it writes its report.
        text = f"but a server has run here ({REPORT_NAME} is its report)"
        found.append(_missing(storage_path, Part.CHECKPOINTS, text))
    return [each for each in found if each is not None]


def refusal(storage_path: Path, missing: Sequence[MissingPart]) -> str:
    """Return the line that says why there is no start, and what to do.

    Args:
        storage_path: The data directory.
        missing: At least one part.
    """
    nouns = " and ".join(_NOUNS[each.part] for each in missing)
    command = f"amqp-server recover --accept-loss --storage-path {shlex.quote(str(storage_path))}"
    texts = "; ".join(each.text for each in missing)
    return f"{texts}: put {nouns} back, or go on without them for good: {command}"


def _missing_logs(
    storage_path: Path, report: LoadReport, known_ends: Mapping[UUID, int]
) -> MissingPart | None:
    # A queue's directory without a log in it is the loss of that log; a start reports it.
    if not any(known_ends.values()) or any((storage_path / Part.LOGS).glob("*/*")):
        return None
    # Others are of queues that were deleted: their entries go with the next round.
    names = [
        f"{document.name!r} in vhost {document.vhost!r}"
        for document, incarnation in _queues(report)
        if known_ends.get(incarnation)
    ]
    if not names:
        return None
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    text = f"but the checkpoint knows of messages in it, of queue {names[0]}{others}"
    return _missing(storage_path, Part.LOGS, text)


def _missing_definitions(
    storage_path: Path, report: LoadReport, *, has_run: bool
) -> MissingPart | None:
    """Return whether the definitions are lost: all logs would be those of queues that are gone.

    The first start writes a definition before there can be a log, and before its report.
    """
    if report.documents or report.unreadable:
        return None
    logs = storage_path / Part.LOGS
    if any(not each.is_deleted for each in find_logs(logs, FileSystem()).logs):
        return _missing(storage_path, Part.DEFINITIONS, f"but {logs} has logs")
    if has_run:
        text = f"but a server has run here ({REPORT_NAME} is its report)"
        return _missing(storage_path, Part.DEFINITIONS, text)
    return None


def _missing(storage_path: Path, part: Part, text: str) -> MissingPart:
    path = storage_path / part
    return MissingPart(part, path, f"{path} is empty or missing, {text}")


def _queues(report: LoadReport) -> Iterator[tuple[Document, UUID]]:
    """Yield the documents of queues whose virtual host is there, and their incarnations."""
    for document in _living(filter(names_queue, report.documents), report):
        try:
            yield document, queue_from(document).incarnation
        except InvalidDefinitionError:
            continue


def _living(documents: Iterator[Document], report: LoadReport) -> Iterator[Document]:
    """Yield those that are no rest of a virtual host whose deletion a crash has interrupted."""
    vhosts = {each.name: each for each in report.documents if each.kind == VHOSTS}
    is_unknown = not vhosts or any(each.kind == VHOSTS for each in report.unreadable)
    deleted = {name for name, each in vhosts.items() if is_deletion_note(each)}
    names: Collection[str] = {DEFAULT_VHOST, *vhosts} - deleted
    return (each for each in documents if is_unknown or each.vhost in names)
