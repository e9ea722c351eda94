"""What a table's owner has asked for is done, or refused by its name."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.tables.delta import DeltaDestination
from appendlog.spark.exporting.tables.delta_rules import rules_of
from appendlog.spark.exporting.tables.delta_stream import DeltaSink
from appendlog.spark.planning.queues import QueueLog

N = {"name": "n", "type": "long", "nullable": True, "metadata": {}}


def column(name: str, kind: str = "long", *, nullable: bool = True, **metadata: object) -> Any:  # noqa: ANN401
    """Return a column; two underscores in the name of an attribute are a dot."""
    attributes = {key.replace("__", "."): value for key, value in metadata.items()}
    return {"name": name, "type": kind, "nullable": nullable, "metadata": attributes}


def make_table(
    path: Path,
    columns: Sequence[object] = (N,),
    partition_by: Sequence[str] = (),
    protocol: Mapping[str, object] | None = None,
    configuration: Mapping[str, str] | None = None,
) -> Path:
    """Make an empty table as its owner has it, whatever the library could make."""
    table = path / "table"
    (table / "_delta_log").mkdir(parents=True)
    actions = [
        {"protocol": protocol or {"minReaderVersion": 1, "minWriterVersion": 4}},
        {
            "metaData": {
                "id": str(UUID(int=1)),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": list(columns)}),
                "partitionColumns": list(partition_by),
                "configuration": configuration or {},
            }
        },
    ]
    (table / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return table


Add = Callable[..., None]


@pytest.fixture
def add(spark: SparkSession) -> Add:
    """Return a function that adds rows to a table as a batch of a stream."""

    def add(table: Path, schema: str, *rows: tuple[object, ...], batch: int = 0) -> None:
        frame = spark.createDataFrame(list(rows), schema)
        DeltaSink(LocalStore(table), query="q")(frame, batch)

    return add


def rows_of(table: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["n"])


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("string", ["b", "a/=% é", None, "b", "a/=% é"]),
        ("date", [date(2026, 1, 2), None, date(2026, 1, 1), date(2026, 1, 2), None]),
        ("int", [-5, 7, None, 7, -5]),
        ("boolean", [True, False, None, False, True]),
        ("decimal(10,2)", [Decimal("1.20"), None, Decimal("-3.00"), Decimal("1.20"), None]),
    ],
)
def test_rows_go_into_their_partitions(
    tmp_path: Path, add: Add, kind: str, values: list[object]
) -> None:
    columns = [N, column("day", {"int": "integer"}.get(kind, kind)), column("m", "string")]
    table = make_table(tmp_path, columns, partition_by=["day"])
    rows = [(number, value, f"m{number}") for number, value in enumerate(values)]
    for _ in range(2):
        add(table, f"n long, day {kind}, m string", *rows)
    assert rows_of(table) == [
        {"n": number, "day": value, "m": f"m{number}"} for number, value in enumerate(values)
    ]
    files = DeltaTable(table).file_uris()
    assert {tuple(pq.read_schema(path).names) for path in files} == {("n", "m")}


@pytest.mark.spark
def test_several_partition_columns_and_one_that_the_stream_lacks(tmp_path: Path, add: Add) -> None:
    columns = [N, column("a b", "string"), column("hour", "integer"), column("other", "string")]
    table = make_table(tmp_path, columns, partition_by=["hour", "a b", "other"])
    rows = [(number, "even" if number % 2 == 0 else "odd", number % 3) for number in range(12)]
    add(table, "n long, `a b` string, hour int", *rows)
    assert rows_of(table) == [
        {"n": n, "a b": text, "hour": hour, "other": None} for n, text, hour in rows
    ]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "configuration", "broken", "name"),
    [
        ([N], {"delta.constraints.positive": "n > 0"}, (0,), "the CHECK constraint positive"),
        ([N], {"delta.constraints.positive": "n > 0"}, (None,), "the CHECK constraint positive"),
        (
            [column("n", nullable=False)],
            {},
            (None,),
            "the rule NOT NULL of column n",
        ),
        (
            [column("n", delta__invariants=json.dumps({"expression": {"expression": "n > 0"}}))],
            {},
            (0,),
            "the invariant of column n",
        ),
    ],
)
def test_a_row_that_breaks_a_rule_is_not_added(
    tmp_path: Path,
    add: Add,
    columns: list[object],
    configuration: dict[str, str],
    broken: tuple[object],
    name: str,
) -> None:
    table = make_table(tmp_path, columns, configuration=configuration)
    add(table, "n long", (1,), (2,))
    with pytest.raises(Exception, match=f"a row breaks {name} of the table"):
        add(table, "n long", (3,), broken, batch=1)
    assert [row["n"] for row in rows_of(table)] == [1, 2]
    add(table, "n long", (3,), batch=1)
    assert [row["n"] for row in rows_of(table)] == [1, 2, 3]


@pytest.mark.spark
def test_a_generated_column_is_made_and_one_that_comes_is_checked(tmp_path: Path, add: Add) -> None:
    generated = column("half", "integer", delta__generationExpression="n / 2")
    table = make_table(tmp_path, [N, generated], partition_by=["half"])
    add(table, "n long", (4,), (6,))
    add(table, "n long, half int", (8, 4), batch=1)
    assert [(row["n"], row["half"]) for row in rows_of(table)] == [(4, 2), (6, 3), (8, 4)]
    with pytest.raises(Exception, match="a row breaks the rule of the generated column half"):
        add(table, "n long, half int", (8, 5), batch=2)


@pytest.mark.spark
@pytest.mark.parametrize("sql", ["m > 0", "n >> 'x' ?"])
def test_a_rule_that_cannot_be_checked_is_named(tmp_path: Path, add: Add, sql: str) -> None:
    rule = {"delta.constraints.odd": sql}
    table = make_table(tmp_path, [N, column("m")], configuration=rule)
    with pytest.raises(OutputError, match="Spark cannot check the CHECK constraint odd"):
        add(table, "n long", (1,))
    assert rows_of(table) == []


@pytest.mark.parametrize(
    ("columns", "missing"),
    [
        ([N, column("m", nullable=False)], "column m must not be null"),
        ([N, column("m", CURRENT_DEFAULT="7")], "column m has a default value"),
    ],
)
def test_a_column_that_must_come_with_the_stream(
    tmp_path: Path, columns: list[object], missing: str
) -> None:
    table = DeltaTable(make_table(tmp_path, columns))
    frame: Any = type("Frame", (), {"columns": ["n"]})
    with pytest.raises(OutputError, match=f"{missing}, and the stream does not have it"):
        rules_of(table, "url").applied_to(frame)


V7 = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": []}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"configuration": {"delta.columnMapping.mode": "name"}}, r"column mapping \(by name\)"),
    ({"columns": [column("n", delta__identity__start=1)]}, "the identity column n"),
    ({"protocol": {**V7, "writerFeatures": ["rowTracking"]}}, "the writer feature rowTracking"),
    ({"protocol": {**V7, "writerFeatures": ["appendOnly", "x"]}}, "the writer feature x"),
    ({"protocol": {"minReaderVersion": 1, "minWriterVersion": 8}}, "the writer version 8"),
    ({"configuration": {"delta.enableInCommitTimestamps": "true"}}, "times in its commits"),
    ({"configuration": {"delta.enableIcebergCompatV2": "true"}}, "compatibility with Iceberg"),
    (
        {"columns": [N, column("at", "timestamp")], "partition_by": ["at"]},
        "the partition column at of type timestamp",
    ),
]


@pytest.mark.parametrize(("rules", "name"), REFUSED, ids=lambda each: str(each)[:30])
def test_what_nothing_here_can_do_is_refused(
    tmp_path: Path, rules: dict[str, Any], name: str
) -> None:
    table = make_table(tmp_path, **rules)
    frame: Any = type("Frame", (), {"columns": ["n"]})
    with pytest.raises(OutputError, match=name):
        DeltaSink(LocalStore(table), query="q")(frame, 0)
    with pytest.raises(OutputError, match=name):
        destination(table).covered()


def test_features_that_ask_nothing_of_us_are_no_obstacle(tmp_path: Path) -> None:
    features = ["appendOnly", "changeDataFeed", "columnMapping", "invariants", "checkConstraints"]
    table = make_table(
        tmp_path,
        protocol={**V7, "writerFeatures": features},
        configuration={"delta.appendOnly": "true"},
    )
    rules = rules_of(DeltaTable(table), "url")
    assert (rules.checks, rules.generated, rules.partition_by) == ({}, {}, ())


def destination(table: Path) -> DeltaDestination:
    log = QueueLog("/", "orders", UUID(int=7), table.parent)
    return DeltaDestination(LocalStore(table), log)


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        (
            {"configuration": {"delta.constraints.positive": "offset > 0"}},
            "the CHECK constraint positive",
        ),
        ({"columns": [column("n", nullable=False)]}, "the column n that must not be null"),
        (
            {"columns": [N, column("g", delta__generationExpression="n")]},
            "the generated column g",
        ),
        ({"columns": [column("n", CURRENT_DEFAULT="1")]}, "the default value of the column n"),
        (
            {"columns": [column("correlation_id", "string", nullable=False)]},
            "the column correlation_id that must not be null",
        ),
    ],
)
def test_an_export_does_not_break_a_rule(tmp_path: Path, rules: dict[str, Any], name: str) -> None:
    table = make_table(tmp_path, **rules)
    with pytest.raises(OutputError, match=f"{name}: an export does not check rows"):
        destination(table).covered()


def test_an_export_goes_into_a_table_whose_rules_it_keeps(tmp_path: Path) -> None:
    table = make_table(
        tmp_path,
        [column("topic", "string", nullable=False)],
        configuration={"delta.appendOnly": "true"},
    )
    assert destination(table).covered() == []
