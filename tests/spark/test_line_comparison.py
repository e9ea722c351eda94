"""Files of JSON lines beside the log that they were made of."""

from pathlib import Path

import pytest

from appendlog.spark.exporting.checking.log_comparison import compare_with_log
from appendlog.spark.exporting.checking.verify import verify_queue
from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.export import FileSettings
from appendlog.spark.exporting.files.json_lines_format import Compression, JsonLinesFormat
from appendlog.spark.exporting.stores.local_store import LocalStore
from tests.spark.builders import all_kinds_of_messages, store_queue
from tests.spark.local_exports import export


@pytest.mark.parametrize("packed", ["", "gz", "zst"])
def test_bodies_in_lines_are_compared_with_the_log(tmp_path: Path, packed: Compression) -> None:
    stored = store_queue(tmp_path / "data")
    messages = all_kinds_of_messages()
    stored.append(messages)
    export(stored, tmp_path / "out", settings=FileSettings(JsonLinesFormat(packed)))
    stored.close()
    store = LocalStore(tmp_path / "out")
    proof = verify_queue(Manifests(store, "orders"), is_deep=True)
    compared = compare_with_log(store, proof, stored.location)
    assert (compared.rows, compared.faults) == (len(messages), ())
    other = store_queue(tmp_path / "other", incarnation=stored.location.incarnation)
    other.append(messages[1:] + messages[:1])
    other.close()
    assert compare_with_log(store, proof, other.location).faults
