"""Detects whether a data directory has lost a whole part.

A data directory looks unused if a disk is not mounted, or if a copy contains only some of its
directories. A start on it would create empty queues and lose for ever what that disk holds. So the
start is refused until the part is back or the operator accepts its loss.
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
from amqp_server.recovery.start_report_file import REPORT_NAME
from appendlog import FileSystem
from metadata.log_directories import find_logs
from metadata.name_list import NAMES_NAME

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from metadata.document import Document
    from metadata.loading import LoadReport


class Part(StrEnum):
    """A part of a data directory; the value is the name of its directory."""

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
    """A part that is missing although the rest of the directory proves that it existed.

    Attributes:
        part: The part.
        path: Its directory.
        text: What is missing and what proves that it existed; without a full stop.
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
        report: Result of loading its `metadata`.
        known_ends: Offset below which each log was on the disk according to the checkpoints.
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
    """Return one line that says why the start is refused and what to do.

    Args:
        storage_path: The data directory.
        missing: The missing parts; at least one.
    """
    nouns = " and ".join(_NOUNS[each.part] for each in missing)
    command = f"amqp-server recover --accept-loss --storage-path {shlex.quote(str(storage_path))}"
    texts = "; ".join(each.text for each in missing)
    return f"{texts}: put {nouns} back, or accept the loss for good: {command}"


def _missing_logs(
    storage_path: Path, report: LoadReport, known_ends: Mapping[UUID, int]
) -> MissingPart | None:
    # If only one log is missing from its queue's directory, the start itself reports that loss.
    if not any(known_ends.values()) or any((storage_path / Part.LOGS).glob("*/*")):
        return None
    # Other known ends belong to deleted queues: their entries leave with the next checkpoint round.
    names = [
        f"{document.name!r} in vhost {document.vhost!r}"
        for document, incarnation in _queues(report)
        if known_ends.get(incarnation)
    ]
    if not names:
        return None
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    text = f"but the checkpoint records messages of queue {names[0]}{others}"
    return _missing(storage_path, Part.LOGS, text)


def _missing_definitions(
    storage_path: Path, report: LoadReport, *, has_run: bool
) -> MissingPart | None:
    """Return whether the definitions are lost: then every log would count as a deleted queue's.

    The first start writes a definition before any log can exist, and before its report.
    """
    if report.documents or any(not each.is_missing for each in report.unreadable):
        return None
    logs = storage_path / Part.LOGS
    if any(not each.is_deleted for each in find_logs(logs, FileSystem()).logs):
        return _missing(storage_path, Part.DEFINITIONS, f"but {logs} has logs")
    if has_run:
        text = f"but a server has run here ({REPORT_NAME} is its report)"
        return _missing(storage_path, Part.DEFINITIONS, text)
    if report.names is not None and report.names.places:
        text = f"but {NAMES_NAME} lists {len(report.names.places)} documents"
        return _missing(storage_path, Part.DEFINITIONS, text)
    return None


def _missing(storage_path: Path, part: Part, text: str) -> MissingPart:
    path = storage_path / part
    return MissingPart(part, path, f"{path} is empty or missing, {text}")


def _queues(report: LoadReport) -> Iterator[tuple[Document, UUID]]:
    """Yield the documents and incarnations of the queues whose virtual host exists."""
    for document in _living(filter(names_queue, report.documents), report):
        try:
            yield document, queue_from(document).incarnation
        except InvalidDefinitionError:
            continue


def _living(documents: Iterator[Document], report: LoadReport) -> Iterator[Document]:
    """Leave out documents of virtual hosts whose deletion a crash has interrupted."""
    vhosts = {each.name: each for each in report.documents if each.kind == VHOSTS}
    is_unknown = not vhosts or any(each.kind == VHOSTS for each in report.unreadable)
    deleted = {name for name, each in vhosts.items() if is_deletion_note(each)}
    names: Collection[str] = {DEFAULT_VHOST, *vhosts} - deleted
    return (each for each in documents if is_unknown or each.vhost in names)
