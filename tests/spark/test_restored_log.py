"""A log that was restored from an older copy has other messages at offsets that were exported."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.destination import Destination
from appendlog.spark.exporting.export import QueueExport
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.tables.delta import DeltaDestination
from appendlog.spark.exporting.tables.iceberg import IcebergDestination
from tests.spark.builders import START_NS, plain_messages, store_queue
from tests.spark.local_exports import plan, run_all

INCARNATION = UUID("11111111-2222-3333-4444-555555555555")
LATER_NS = START_NS + 3_600 * 10**9


@pytest.mark.parametrize("kind", [FilesDestination, DeltaDestination, IcebergDestination])
def test_it_is_refused_also_when_it_has_grown_past_its_old_end(
    tmp_path: Path, kind: Callable[..., Destination]
) -> None:
    """Its new messages are not the exported ones: to take them for those would lose them."""
    out = LocalStore(tmp_path / "out")
    queue, copy = (
        store_queue(tmp_path / name, incarnation=INCARNATION) for name in ("data", "copy")
    )
    with closing(queue), closing(copy):
        for count in (60, 40):
            queue.append(plain_messages(count), step=10)
            to = kind(out, queue.location)
            planned = plan(queue, to)
            assert planned.offset_count == count
            (outcome,) = run_all([QueueExport(planned, to)])
            assert outcome.error is None

        copy.append(plain_messages(60), step=10)
        with pytest.raises(OutputError, match="ends at offset 100, behind the durable end 60"):
            plan(copy, kind(out, copy.location))
        copy.append_at(plain_messages(50), LATER_NS)
        with pytest.raises(OutputError, match="offset 99 was appended after it was exported"):
            plan(copy, kind(out, copy.location))

        # The log of the output goes on, also behind messages without a row.
        queue.skip(20)
        queue.append_at(plain_messages(5), LATER_NS)
        assert plan(queue, kind(out, queue.location)).offset_count == 25
