"""Paths of the documents."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from metadata.names import encode_name

DOCUMENT_SUFFIX: Final = ".json"
TEMPORARY_SUFFIX: Final = ".tmp"


def document_path(root: Path, kind: str, vhost: str, name: str) -> Path:
    """Return `<root>/<kind>/<vhost>/<name>.json`, vhost and name encoded."""
    return _directory(root, kind, vhost) / f"{encode_name(name)}{DOCUMENT_SUFFIX}"


@lru_cache(maxsize=1024)
def _directory(root: Path, kind: str, vhost: str) -> Path:
    """Return the directory of documents: making a path is slow, and each needs it again."""
    return root / kind / encode_name(vhost)


def place_of(kind: str, vhost: str, name: str) -> tuple[str, str, str]:
    """Return the parts of a document's path below the root."""
    return kind, encode_name(vhost), f"{encode_name(name)}{DOCUMENT_SUFFIX}"


def temporary_path(path: Path) -> Path:
    """Return the path where new content is written before it replaces `path`."""
    return path.with_name(path.name + TEMPORARY_SUFFIX)
