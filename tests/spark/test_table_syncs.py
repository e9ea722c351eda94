"""What a commit to a table consists of is on the disk when the export says so.

The libraries that write tables make no sync of their own.
"""

import os
from pathlib import Path

import pytest

from appendlog.spark.exporting.layout import ICEBERG_CATALOG
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.tables.delta import DeltaDestination
from appendlog.spark.exporting.tables.iceberg import IcebergDestination
from tests.spark.builders import plain_messages, store_queue
from tests.spark.table_files import export


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """By inode: the time of its last change before it was synced last."""
    synced: dict[int, int] = {}
    fsync = os.fsync

    def note(descriptor: int) -> None:
        found = os.fstat(descriptor)
        fsync(descriptor)
        synced[found.st_ino] = found.st_mtime_ns

    monkeypatch.setattr(os, "fsync", note)
    return synced


@pytest.mark.parametrize(
    ("kind", "of_sqlite"),
    [
        (DeltaDestination, set()),
        # The catalog and its folder, where SQLite makes and removes its journal: it syncs them.
        (IcebergDestination, {".", ICEBERG_CATALOG}),
    ],
)
def test_every_file_and_folder_of_a_table_is_synced_behind_its_last_change(
    tmp_path: Path,
    synced: dict[int, int],
    kind: type[DeltaDestination | IcebergDestination],
    of_sqlite: set[str],
) -> None:
    stored = store_queue(tmp_path / "data", segment_bytes=4096)
    stored.append(plain_messages(20), step=10)
    table = tmp_path / "table"
    for end in (10, 20):
        export(kind(LocalStore(table), stored.location), stored.location, table, [(end - 10, end)])
        unsynced = {
            path.relative_to(table).as_posix()
            for path in (table, *table.rglob("*"))
            if synced.get(path.stat().st_ino) != path.stat().st_mtime_ns
        }
        assert unsynced <= of_sqlite
    stored.close()
