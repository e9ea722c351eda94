"""Why a migration cannot begin or go on."""

from __future__ import annotations


class SourceError(Exception):
    """The source cannot be used; the text is one line and names a remedy."""
