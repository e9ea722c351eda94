"""CRC-32C: of the package `crc32c`, or of numpy where Spark's workers have no such package.

The name is bound once, at import, so that a call costs what it costs without this module.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

__all__ = ["IS_FOLDED", "crc32c"]


def _compiled_function() -> Callable[..., int]:
    """Load the package's compiled part, without what else the package does at import.

    It asks `importlib.metadata` for its own version, and that brings parsers of mail, CSV and zip
    files: a seventh of the instructions of a server's start.

    Raises:
        ImportError: There is no such package.
    """
    package = find_spec("crc32c")
    places = None if package is None else package.submodule_search_locations
    spec = None if places is None else PathFinder.find_spec("_crc32c", places)
    if spec is None or spec.loader is None:
        raise ImportError("no compiled part of the package crc32c", name="crc32c")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., int] = module.crc32c
    return function


try:
    crc32c = _compiled_function()
    IS_FOLDED = False
    """Whether the sums come from `folded_crc`, which is better asked for many at once."""
except ImportError as _missing:
    # A `--py-files` archive can bring no compiled package; numpy comes with Spark.
    try:
        from appendlog.layout.folded_crc import crc32c

        IS_FOLDED = True
    except ImportError:
        raise _missing from None
