"""Detects the kind of output in a store: two kinds in one place would damage each other."""

from enum import Enum

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.layout import DELTA_DIRECTORY, ICEBERG_CATALOG, WORK_DIRECTORY
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.stores.store import OutputStore


class Contents(Enum):
    """Kind of an output; the value is its name for users."""

    DELTA = "a Delta table"
    FILES = "an output of files"
    ICEBERG = "an Iceberg table"


def contents_of(store: OutputStore) -> Contents | None:
    """Return the kind of output in a store; None if there is no output."""
    if store.list(DELTA_DIRECTORY):
        return Contents.DELTA
    if store.list(WORK_DIRECTORY):
        return Contents.FILES
    return Contents.ICEBERG if _has_catalog(store) else None


def refuse_other_contents(store: OutputStore, ours: Contents) -> None:
    """Check that a store has no output of another kind.

    The clean-up of a table would remove files that the table does not know.

    Raises:
        OutputError: There is an output of another kind.
    """
    if ours is Contents.FILES and not _has_catalog(store) and not store.list(DELTA_DIRECTORY):
        # Called for each new queue, so it must not list the manifests of all others.
        return
    found = contents_of(store)
    if found not in (None, ours):
        raise OutputError(f"{store.url}: {found.value}, and not {ours.value}; give another --out")


def _has_catalog(store: OutputStore) -> bool:
    return isinstance(store, LocalStore) and (store.root / ICEBERG_CATALOG).exists()
