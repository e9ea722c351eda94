"""Definitions with a valid checksum and a value that their kind cannot have."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.recovery.start_report import MalformedDefinition
from metadata.paths import document_path

if TYPE_CHECKING:
    from pathlib import Path

    from metadata.document import Document

logger = logging.getLogger("amqp_server.malformed_definitions")


def malformed_definition(
    storage_path: Path, document: Document, error: Exception
) -> MalformedDefinition:
    """Return what the start report says of a document with an invalid value; log it."""
    path = document_path(storage_path / "metadata", document.kind, document.vhost, document.name)
    return MalformedDefinition(path, document.name, log_invalid(document, error))


def log_invalid(document: Document, error: Exception) -> str:
    """Log that a document contains an invalid value; return the reason that clients get."""
    logger.error(
        "metadata malformed kind=%s vhost=%s name=%s reason=%s",
        document.kind,
        document.vhost,
        document.name,
        error,
    )
    return f"its definition is invalid: {error}"
