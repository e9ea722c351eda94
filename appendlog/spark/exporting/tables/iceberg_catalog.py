"""Opens the catalog of an Iceberg output: a SQLite file beside the table."""

import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.layout import ICEBERG_CATALOG
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.table_names import lake_module

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

NAMESPACE: Final = "amqplog"
TABLE: Final = f"{NAMESPACE}.messages"
_STEPS: Final = 3
"""A catalog is made in so many steps: two tables, and the namespace."""


def open_catalog(store: OutputStore, *, is_to_be_made: bool) -> "Catalog | None":
    """Return the catalog in an output; None if there is none.

    Args:
        store: Store of the output.
        is_to_be_made: Whether to create the catalog if there is none.

    Raises:
        LakeMissingError: The library is not installed.
        OutputError: The output is no directory.
    """
    lake_module("pyiceberg.catalog")
    lake_module("sqlalchemy")
    # It logs columns without statistics to standard error; we leave them out on purpose.
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    if not isinstance(store, LocalStore):
        raise OutputError(f"{store.url}: an Iceberg table is made in a directory only")
    path = store.root / ICEBERG_CATALOG
    if not path.exists() and not is_to_be_made:
        return None
    store.root.mkdir(parents=True, exist_ok=True)
    errors = lake_module("sqlalchemy.exc")
    for _ in range(_STEPS):
        # Another export makes the catalog at the same time and was faster with one of the steps.
        with suppress(errors.OperationalError, errors.IntegrityError):
            return _load(store.root, path)
    return _load(store.root, path)


def _load(root: Path, path: Path) -> "Catalog":
    """Open the catalog; make what it lacks."""
    catalog: Catalog = lake_module("pyiceberg.catalog").load_catalog(
        NAMESPACE, type="sql", uri=f"sqlite:///{path}", warehouse=root.as_uri()
    )
    catalog.create_namespace_if_not_exists(NAMESPACE)
    return catalog
