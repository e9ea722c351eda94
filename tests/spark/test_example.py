"""The notebook of the documentation, run on an export of real flights."""

import runpy
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from appendlog import LogReader, SplitReader, encode_message
from appendlog.layout.message import PERSISTENT
from appendlog.spark.decoding.log_batches import log_batches
from cli.demo.flights import read_flights
from tests.spark.builders import store_queue

NOTEBOOK = Path(__file__).parents[2] / "docs" / "examples" / "flights.py"
FLIGHTS = 3_000

pytestmark = pytest.mark.spark


def test_the_notebook_plots_the_delays_of_exported_flights(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored = store_queue(tmp_path / "data", "flights")
    stored.append(
        [
            encode_message(
                PERSISTENT, b"flights", flight.routing_key.encode(), b"\0\0", flight.body
            )
            for flight in read_flights(FLIGHTS)
        ]
    )
    stored.close()
    log = stored.location
    with LogReader(log.directory) as reader:
        splits = reader.plan_splits()
    batches = [
        batch.rows
        for split in splits
        for batch in log_batches(SplitReader(log.directory), log, split)
    ]
    (tmp_path / "lake").mkdir()
    pq.write_table(pa.Table.from_batches(batches), tmp_path / "lake" / "part-0.parquet")
    picture = tmp_path / "flights.png"
    monkeypatch.setattr("sys.argv", [str(NOTEBOOK), str(tmp_path / "lake"), str(picture)])

    names = runpy.run_path(str(NOTEBOOK))

    assert names["spark"] is spark
    assert f"{picture}: {FLIGHTS} flights" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    pixels = names["plt"].imread(picture)
    assert pixels.shape[:2] == (700, 900)
    # Three lines in two diagrams, in the colours of a new figure.
    for red, green, blue in ((0x1F, 0x77, 0xB4), (0xFF, 0x7F, 0x0E), (0x2C, 0xA0, 0x2C)):
        is_colour = (pixels[..., :3] * 255).round() == (red, green, blue)
        assert is_colour.all(axis=2).sum() > 500
