"""Opens the output under a URI."""

from collections.abc import Mapping

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.stores.contents import Contents, contents_of
from appendlog.spark.exporting.stores.opening import open_store
from appendlog.spark.importing.exported import Exported
from appendlog.spark.importing.exported_delta import ExportedDelta
from appendlog.spark.importing.exported_files import ExportedFiles
from appendlog.spark.importing.exported_iceberg import ExportedIceberg


def open_exported(uri: str, options: Mapping[str, str] | None = None) -> Exported:
    """Return an output of any kind.

    Args:
        uri: URI that was given to the export.
        options: Options of the object store.

    Raises:
        OutputError: There is no output of an export.
        LakeMissingError: The library for its kind is not installed.
    """
    store = open_store(uri, options)
    match contents_of(store):
        case Contents.DELTA:
            return ExportedDelta(store)
        case Contents.ICEBERG:
            return ExportedIceberg(store)
        case Contents.FILES:
            return ExportedFiles(store)
    raise OutputError(f"{store.url}: no output of an export: neither manifests nor a table in it")
