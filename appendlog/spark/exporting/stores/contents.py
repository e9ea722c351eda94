"""What kind of output lies in a store: two kinds in one place would spoil each other."""

from enum import Enum

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.layout import DELTA_DIRECTORY, ICEBERG_CATALOG, WORK_DIRECTORY
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.stores.store import OutputStore


class Contents(Enum):
    """Kind of an output; the value is what users call it."""

    DELTA = "a Delta table"
    FILES = "an output of files"
    ICEBERG = "an Iceberg table"


def contents_of(store: OutputStore) -> Contents | None:
    """Return what is in a store; None where nothing of an export is."""
    if store.list(DELTA_DIRECTORY):
        return Contents.DELTA
    if store.list(WORK_DIRECTORY):
        return Contents.FILES
    return Contents.ICEBERG if _has_catalog(store) else None


def refuse_other_contents(store: OutputStore, ours: Contents) -> None:
    """Refuse to begin an output where there is one of another kind.

    What cleans up a table would remove files that the table does not know.

    Raises:
        OutputError: There is.
    """
    if ours is Contents.FILES and not _has_catalog(store) and not store.list(DELTA_DIRECTORY):
        # Asked for each new queue: without a look at the manifests of all others.
        return
    found = contents_of(store)
    if found not in (None, ours):
        raise OutputError(f"{store.url}: {found.value}, and not {ours.value}; give another --out")


def _has_catalog(store: OutputStore) -> bool:
    return isinstance(store, LocalStore) and (store.root / ICEBERG_CATALOG).exists()
