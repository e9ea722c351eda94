"""Opens the table in an output, of either kind."""

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.stores.contents import Contents, contents_of
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.delta_contents import DeltaContents
from appendlog.spark.exporting.tables.iceberg_contents import IcebergContents
from appendlog.spark.exporting.tables.table_contents import QueueState, TableContents
from metadata.name_texts import replaced_text


def open_table(store: OutputStore) -> TableContents | None:
    """Return the table in an output; None if there is none.

    Raises:
        LakeMissingError: The library for its kind is not installed.
        OutputError: The table cannot be read.
    """
    found = contents_of(store)
    if found is Contents.DELTA:
        return DeltaContents(store)
    return IcebergContents(store) if found is Contents.ICEBERG else None


def queues_in(table: TableContents, queue: str | None) -> list[QueueState]:
    """Return the queues that exports have added to a table.

    Args:
        table: Table to read.
        queue: Name of the queues to return; None for all.

    Raises:
        OutputError: The table has no such queue.
    """
    found = [
        state for state in table.queues() if queue is None or state.queue == replaced_text(queue)
    ]
    if not found:
        what = "any queue" if queue is None else f"queue {queue!r}"
        raise OutputError(f"{table.url}: no export has added {what} to this table")
    return found
