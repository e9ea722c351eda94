"""Finds the store of a URI."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.stores.object_store import ObjectStore
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.objects.connection import check_scheme
from appendlog.spark.objects.location import Location
from appendlog.spark.objects.store_options import StoreOptions


def open_store(uri: str, options: Mapping[str, str] | None = None) -> OutputStore:
    """Return the store of a URI; reads, makes and writes nothing.

    Args:
        uri: Directory (relative to the working directory), `file:///...`, or a folder of an object
            store such as `s3://bucket/folder`.
        options: Options of the store, see `objects.store_options`; a directory has none.

    Raises:
        OutputError: No store can be written under this URI.
        StoreError: The URI names no place in an object store.
    """
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return LocalStore(Path(uri).absolute())
    if scheme.lower() == "file":
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            raise OutputError(f"{uri}: a file URI has three slashes: file:///{parts.netloc}...")
        return LocalStore(Path(unquote(parts.path)))
    location = Location.parse(uri)
    check_scheme(location)
    return ObjectStore(location, StoreOptions.of(options or {}))
