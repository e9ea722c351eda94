"""CRC-32C: of the package `crc32c`, or of numpy where Spark's workers have no such package.

The name is bound once, at import, so that a call costs what it costs without this module.
"""

__all__ = ["IS_FOLDED", "crc32c"]

try:
    from crc32c import crc32c

    IS_FOLDED = False
    """Whether the sums come from `folded_crc`, which is better asked for many at once."""
except ImportError as _missing:
    # A `--py-files` archive can bring no compiled package; numpy comes with Spark.
    try:
        from appendlog.layout.folded_crc import crc32c  # type: ignore[assignment]

        IS_FOLDED = True
    except ImportError:
        raise _missing from None
