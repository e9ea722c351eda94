"""Names and sizes as the commands print them."""

from collections.abc import Mapping
from typing import Any, Final

_UNITS: Final = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def shown(name: str) -> str:
    """Return a name that prints as one line: a line feed in it must not look like another line."""
    return name if name.isprintable() else ascii(name)


def shown_field(row: Mapping[str, Any], field: str) -> str:
    """Return a name from a reply of the server, which sends what is not UTF-8 as base64.

    Args:
        row: Has `field` or `<field>_base64`.
        field: Name of the member.
    """
    name = row.get(field)
    return shown(name) if name is not None else f"base64:{row[f'{field}_base64']}"


def shown_bytes(size_bytes: int) -> str:
    """Return a size for tables, with one decimal place: `14.6 KiB`; below 10,000 bytes exact."""
    if size_bytes < 10_000:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def rough_size(size_bytes: int) -> str:
    """Return a size for running text, with one decimal place: `1.5 KiB`; below 1 KiB exact."""
    for unit, length in _UNITS:
        if size_bytes >= length:
            return f"{size_bytes / length:.1f} {unit}"
    return f"{size_bytes} B"
