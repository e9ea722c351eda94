"""Rough sizes, for people."""

from typing import Final

_UNITS: Final = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def rough_size(size_bytes: int) -> str:
    """Return a size with one decimal place: `1.5 GiB`; below 1 KiB it is exact."""
    for unit, length in _UNITS:
        if size_bytes >= length:
            return f"{size_bytes / length:.1f} {unit}"
    return f"{size_bytes} B"
