"""CRC-32C, from the package `crc32c`.

The function is looked up once, at import, so that calls have no extra cost.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

from appendlog.errors import MissingPackageError

__all__ = ["crc32c"]


def _compiled_function() -> Callable[..., int]:
    """Load the compiled part of the package, without its other imports.

    At import the package asks `importlib.metadata` for its own version. That loads parsers of
    mail, CSV and zip files: a seventh of the instructions of a server's start.

    Raises:
        MissingPackageError: The package is not installed.
    """
    package = find_spec("crc32c")
    places = None if package is None else package.submodule_search_locations
    spec = None if places is None else PathFinder.find_spec("_crc32c", places)
    if spec is None or spec.loader is None:
        raise MissingPackageError("crc32c", "the checksums of logs")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., int] = module.crc32c
    return function


crc32c = _compiled_function()
