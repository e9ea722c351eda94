"""Check of an export's output place before anything is written."""

from pathlib import Path

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.stores.store import OutputStore


def check_output_place(store: OutputStore, storage_path: Path) -> None:
    """Refuse a path that is not a directory, or in which the server has its own files.

    Object stores are not checked: they refuse requests themselves.

    Raises:
        OutputError: The path is a file, or inside the data directory.
    """
    if not isinstance(store, LocalStore):
        return
    place = Path(store.url)
    nearest = next(path for path in (place, *place.parents) if path.exists())
    if not nearest.is_dir():
        below = "" if nearest == place else f"{nearest} "
        raise OutputError(f"{place}: {below}is a file, not a directory; give another --out")
    if place.resolve().is_relative_to(storage_path.resolve()):
        raise OutputError(
            f"{place}: the server's own files are in {storage_path}; give an --out outside it"
        )
