from pathlib import Path

import pytest

from appendlog.spark.errors import ColumnError, OptionError, StoreError
from appendlog.spark.planning.bounds import EARLIEST, LATEST, Bound, Bounds, IfNoneLater
from appendlog.spark.planning.choosing import Subscription
from appendlog.spark.planning.packing import PARTITION_BYTES
from appendlog.spark.planning.settlement import Include
from appendlog.spark.schema.columns import ROWS
from appendlog.spark.source.batch_plan import BatchOptions, batch_options
from appendlog.spark.source.data_source import row_ddl
from appendlog.spark.source.options import GivenOptions, Reading
from appendlog.spark.source.read_options import OnDamage


def options(**given: str) -> BatchOptions:
    return batch_options({"path": "/data", "subscribe": "orders", **given})


def test_what_is_not_said_has_a_default() -> None:
    found = options()
    shared = found.shared
    assert (shared.storage_path, shared.vhost) == (Path("/data"), "/")
    assert shared.subscription == Subscription(("orders",))
    assert (found.starting, found.ending) == (Bounds(EARLIEST), Bounds(LATEST))
    assert (shared.if_none_later, found.include) == (IfNoneLater.ERROR, Include.ALL)
    assert (shared.is_loss_fatal, shared.on_damage) == (True, OnDamage.FAILFAST)
    assert (shared.partition_bytes, shared.min_partitions) == (PARTITION_BYTES, 1)
    assert shared.ddl == ROWS.ddl


def test_upper_and_lower_case_are_the_same_in_names_and_words() -> None:
    found = options(STARTINGOFFSETS="5", failondataloss="FALSE", Mode="permissive", INCLUDE="Acked")
    assert found.starting == Bounds(Bound.at_offset(5))
    assert (found.shared.is_loss_fatal, found.shared.on_damage) == (False, OnDamage.PERMISSIVE)
    assert found.include is Include.ACKED


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffset": "1"}, "option startingOffset: .*did you mean startingOffsets?"),
        ({"endingoffset_s": "1"}, "did you mean endingOffsets?"),
        ({"failOnLoss": "1"}, "did you mean failOnDataLoss?"),
        ({"x": "1"}, "option x: is no option of amqplog; docs/spark-reading.md has all of them"),
        ({"kafka.bootstrap.servers": "h:1"}, "no broker to connect to"),
        ({"provider": "amqplog"}, "option provider: .* CREATE TEMPORARY VIEW"),
        ({"location": "file:/data"}, "option location: .* CREATE TEMPORARY VIEW"),
        ({"maxOffsetsPerTrigger": "1"}, "is an option of spark.readStream only"),
        ({"subscribePattern": "o.*"}, "option subscribePattern: contradicts subscribe: give one"),
        ({"assign": '{"a": [0]}'}, "option assign: contradicts subscribe"),
        ({"uri": "/data"}, "option uri: contradicts path: give one of path or uri"),
        ({"subscribe": " "}, "option subscribe: ' ' names no queue"),
        ({"path": ""}, "option path: is empty"),
        ({"startingOffsets": "soon"}, "option startingOffsets: 'soon' is no offset"),
        ({"startingOffsets": "latest"}, "option startingOffsets: latest .* no rows"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "option startingOffsets: latest"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: earliest"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "option endingOffsets: earliest"),
        ({"startingTimestamp": "soon"}, "option startingTimestamp: 'soon' is no time"),
        (
            {"startingOffsets": "1", "startingTimestamp": "1"},
            "option startingTimestamp: contradicts startingOffsets",
        ),
        (
            {"endingTimestamp": "1", "endingOffsetsByTimestamp": "1"},
            "option endingOffsetsByTimestamp: contradicts endingTimestamp",
        ),
        ({"startingOffsetsByTimestampStrategy": "skip"}, "'skip' is not one of error, latest"),
        ({"failOnDataLoss": "yes"}, "option failOnDataLoss: 'yes' is not one of true, false"),
        ({"mode": "IGNORE"}, "not one of PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"include": "new"}, "'new' is not one of all, acked, unacked"),
        ({"minPartitions": "0"}, "option minPartitions: '0' is no number from 1"),
        ({"minPartitions": "9" * 30}, "is no number from 1"),
        ({"maxBytesPerPartition": "64 apples"}, "option maxBytesPerPartition: '64 apples' is no"),
        ({"maxBytesPerPartition": "0"}, "'0' is no size"),
        ({"columns": ""}, "option columns: names no column"),
        ({"columns": "headers", "includeHeaders": "false"}, "includeHeaders is false"),
        ({"kafkaSchema": "true", "headersAs": "map"}, "option headersAs: contradicts kafkaSchema"),
        ({"headersAs": "yaml"}, "'yaml' is not one of map, json, raw"),
        ({"pushDownFilters": "maybe"}, "option pushDownFilters: 'maybe' is not one of true"),
        ({"verifyCrc": "false"}, "option verifyCrc: checksums are always verified"),
        ({"columnNameOfCorruptRecord": "offset"}, "'offset' is the name of another column"),
        ({"columnNameOfCorruptRecord": "Offset"}, "'Offset' is the name of another column"),
    ],
)
def test_what_nobody_would_act_on_is_an_error(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        options(**given)


def test_what_has_no_default_must_be_given() -> None:
    with pytest.raises(OptionError, match="option path: is missing"):
        batch_options({"subscribe": "orders"})
    with pytest.raises(OptionError, match="option subscribe: is missing"):
        batch_options({"path": "/data"})


def test_options_of_a_batch_are_none_of_a_stream() -> None:
    with pytest.raises(OptionError, match=r"endingOffsets: is an option of spark\.read only"):
        GivenOptions({"endingOffsets": "1"}, Reading.STREAM)
    # Spark asks for columns without saying in which way it will read.
    either = {"path": "/data", "subscribe": "a", "endingOffsets": "1", "maxOffsetsPerTrigger": "1"}
    assert row_ddl(either) == ROWS.ddl


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("1", 1), ("64m", 64 << 20), ("64 MB", 64 << 20), ("64MiB", 64 << 20), ("2g", 2 << 30)],
)
def test_sizes_are_written_as_in_spark(text: str, size_bytes: int) -> None:
    assert options(maxBytesPerPartition=text).shared.partition_bytes == size_bytes


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/var/lib/amqp", "/var/lib/amqp"),
        ("file:/var/lib/amqp", "/var/lib/amqp"),
        ("file:///var/lib/a%20b", "/var/lib/a b"),
        ("s3://bucket/data", "s3:/bucket/data"),
    ],
)
def test_a_data_directory_is_a_path_or_a_uri(text: str, path: str) -> None:
    for name in ("path", "uri"):
        found = batch_options({name: text, "subscribe": "orders"})
        assert found.shared.storage_path == Path(path)


def test_a_relative_path_is_that_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert options(path="data").shared.storage_path == tmp_path / "data"


def test_options_of_a_store_are_kept_and_not_shown() -> None:
    found = options(**{"path": "s3://bucket/data", "fs.secret_key": "hush", "fs.Region": "x"})
    assert found.shared.store_options.as_dict()["secret_key"] == "hush"
    assert found.shared.store_options.as_dict()["region"] == "x"
    assert "hush" not in repr(found)
    with pytest.raises(StoreError, match="account in it"):
        options(path="s3://me:hush@bucket/data")


def test_columns_are_chosen_by_option() -> None:
    assert options(columns=" offset, key,timestamp_ns").shared.ddl == (
        "`offset` BIGINT, `key` STRING, `timestamp_ns` BIGINT"
    )
    assert "headers" not in options(includeHeaders="false").shared.ddl
    with pytest.raises(ColumnError, match=r"no column 'offset_': did you mean offset\?"):
        options(columns="offset_")
    with pytest.raises(ColumnError, match="there is no column 'zzz': there are key, value, "):
        options(columns="zzz")
    with pytest.raises(ColumnError, match="column key is named twice"):
        options(columns="key,offset,key")


def test_rows_can_be_kafkas() -> None:
    assert options(kafkaSchema="true").shared.ddl == (
        "`key` BINARY, `value` BINARY, `topic` STRING, `partition` INT, `offset` BIGINT, "
        "`timestamp` TIMESTAMP, `timestampType` INT"
    )
    with_headers = options(kafkaSchema="true", includeHeaders="true").shared.ddl
    assert with_headers.endswith(", `headers` ARRAY<STRUCT<`key`: STRING, `value`: BINARY>>")
    chosen = options(kafkaSchema="true", columns="exchange,key,headers").shared.ddl
    assert chosen == (
        "`exchange` STRING, `key` BINARY, `headers` ARRAY<STRUCT<`key`: STRING, `value`: BINARY>>"
    )


def test_headers_have_forms() -> None:
    assert options(headersAs="JSON").shared.ddl.endswith(", `headers` STRING")
    assert options(headersAs="raw", columns="headers").shared.ddl == "`headers` BINARY"
    assert options(verifyCrc="true").shared.ddl == ROWS.ddl


def test_only_permissive_rows_have_a_column_for_damage() -> None:
    assert options(mode="PERMISSIVE").shared.ddl.endswith(", `_corrupt_record` STRING")
    named = options(mode="PERMISSIVE", columns="key", columnNameOfCorruptRecord="b`d")
    assert named.shared.ddl == "`key` STRING, `b``d` STRING"
    assert options(mode="DROPMALFORMED").shared.ddl == ROWS.ddl
