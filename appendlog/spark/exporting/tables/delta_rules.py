"""Rules that the owner of a Delta table sets for every program that adds rows to it.

Delta-rs checks these rules when it writes rows itself. Here tasks write the files, so this reads
the rules, and refuses by name what nothing here can do.

Source: the Delta transaction protocol, https://github.com/delta-io/delta/blob/master/PROTOCOL.md.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from appendlog.spark.errors import OutputError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import Column, DataFrame

_WRITER_VERSION_MAX: Final = 7
"""From this version on, a table lists the features that it asks of its writers."""
_FEATURES_DONE: Final = {
    "allowColumnDefaults",
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "columnMapping",
    "deletionVectors",
    "domainMetadata",
    "generatedColumns",
    "icebergCompatV1",
    "icebergCompatV2",
    "identityColumns",
    "inCommitTimestamp",
    "invariants",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
"""Features that ask nothing of a writer who adds rows, or that `_refused` looks at."""
_SWITCHES: Final = {
    "delta.enableIcebergCompatV1": "compatibility with Iceberg",
    "delta.enableIcebergCompatV2": "compatibility with Iceberg",
    "delta.enableInCommitTimestamps": "times in its commits",
}
_CONSTRAINT: Final = "delta.constraints."
_INVARIANT: Final = "delta.invariants"
_GENERATED: Final = "delta.generationExpression"
_DEFAULT: Final = "CURRENT_DEFAULT"
_IDENTITY: Final = "delta.identity."
_PARTITION_TYPES: Final = {"string", "byte", "short", "integer", "long", "boolean", "date"}
"""Types of partition columns whose text is the same to every reader, besides decimals."""


@dataclass(frozen=True, slots=True)
class DeltaRules:
    """Rules of a table for its rows.

    Attributes:
        url: URL of the table, for messages.
        fields: Columns, as in the JSON of the table's schema, by name.
        partition_by: Columns that the table is partitioned by.
        checks: SQL expressions that must be true for each row, by what the table calls them.
        generated: SQL expressions of columns, by their names.
    """

    url: str
    fields: Mapping[str, Mapping[str, Any]]
    partition_by: tuple[str, ...]
    checks: Mapping[str, str]
    generated: Mapping[str, str]

    @property
    def required(self) -> set[str]:
        """Columns that are never null."""
        return {name for name, field in self.fields.items() if not field["nullable"]}

    @property
    def defaults(self) -> set[str]:
        """Columns that have a default value."""
        return {name for name, field in self.fields.items() if _DEFAULT in field["metadata"]}

    def applied_to(self, rows: "DataFrame") -> "DataFrame":
        """Return rows with generated columns; a row that breaks a rule fails its task.

        Raises:
            OutputError: The rows lack a column that the table requires, has a default for, or has
                rules for; or Spark does not know the SQL of a rule.
        """
        from pyspark.errors import AnalysisException

        there = set(rows.columns)
        for name in sorted((self.required | self.defaults) - there - self.generated.keys()):
            rule = "must not be null" if name in self.required else "has a default value"
            raise OutputError(f"{self.url}: column {name} {rule}, and the stream does not have it")
        rule = sql = ""
        try:
            for name, sql in self.generated.items():
                rule = f"the rule of the generated column {name}"
                if name not in there:
                    rows = rows.withColumn(name, _expression(sql).cast(self._type(name)))
            for rule, sql in self._conditions(there):
                error = f"a row breaks {rule} of the table {self.url}: {sql}"
                rows = rows.filter(_is_kept(sql, error))
        except AnalysisException as error:
            reason = str(error).partition("\n")[0]
            raise OutputError(f"{self.url}: Spark cannot check {rule} ({sql}): {reason}") from error
        return rows

    def refuse_for_exports(self, columns: Collection[str], filled: Collection[str]) -> None:
        """Refuse a table with rules for rows: exports write rows as they are in the log.

        Args:
            columns: Columns of an export.
            filled: Those that are never null.

        Raises:
            OutputError: The table has a rule that an export may break.
        """
        rules = [*self.checks, *(f"the generated column {name}" for name in self.generated)]
        rules += [
            f"the column {name} that must not be null"
            for name in sorted(self.required.difference(filled))
        ]
        rules += [
            f"the default value of the column {name}"
            for name in sorted(self.defaults.difference(columns))
        ]
        if rules:
            raise OutputError(
                f"{self.url}: the table has {', '.join(rules)}: an export does not check rows, so "
                "it could break this; drop the rule, or give another --out"
            )

    def _conditions(self, there: set[str]) -> Iterator[tuple[str, str]]:
        for name in sorted(self.required):
            yield f"the rule NOT NULL of column {name}", f"{_quoted(name)} IS NOT NULL"
        for name, sql in self.generated.items():
            if name in there:
                yield f"the rule of the generated column {name}", f"{_quoted(name)} <=> ({sql})"
        yield from self.checks.items()

    def _type(self, name: str) -> Any:  # noqa: ANN401 - a type of Spark
        from pyspark.sql.types import StructType

        return StructType.fromJson({"type": "struct", "fields": [self.fields[name]]})[0].dataType


def rules_of(table: "DeltaTable", url: str) -> DeltaRules:
    """Return the rules of a table.

    Args:
        table: Table.
        url: Its URL, for messages.

    Raises:
        OutputError: The table asks for something that nothing here can do.
    """
    metadata = table.metadata()
    configuration = metadata.configuration
    fields = {field["name"]: field for field in json.loads(table.schema().to_json())["fields"]}
    partition_by = tuple(metadata.partition_columns)
    for reason in _refused(table, configuration, fields, partition_by):
        raise OutputError(f"{url}: the table has {reason}, which is not supported here")
    checks = {
        f"the CHECK constraint {name.removeprefix(_CONSTRAINT)}": sql
        for name, sql in sorted(configuration.items())
        if name.startswith(_CONSTRAINT)
    }
    for name, field in fields.items():
        if _INVARIANT in field["metadata"]:
            invariant = json.loads(field["metadata"][_INVARIANT])["expression"]["expression"]
            checks[f"the invariant of column {name}"] = invariant
    generated = {
        name: field["metadata"][_GENERATED]
        for name, field in fields.items()
        if _GENERATED in field["metadata"]
    }
    return DeltaRules(url, fields, partition_by, checks, generated)


def _refused(
    table: "DeltaTable",
    configuration: Mapping[str, str],
    fields: Mapping[str, Mapping[str, Any]],
    partition_by: tuple[str, ...],
) -> Iterator[str]:
    protocol = table.protocol()
    if protocol.min_writer_version > _WRITER_VERSION_MAX:
        yield f"the writer version {protocol.min_writer_version}"
    for feature in sorted(set(protocol.writer_features or ()) - _FEATURES_DONE):
        yield f"the writer feature {feature}"
    mode = configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        yield f"column mapping (by {mode})"
    for switch, name in _SWITCHES.items():
        if configuration.get(switch, "false") == "true":
            yield f"{name} ({switch})"
    for name, field in fields.items():
        if any(key.startswith(_IDENTITY) for key in field["metadata"]):
            yield f"the identity column {name}"
    for name in partition_by:
        kind = fields[name]["type"]
        if kind not in _PARTITION_TYPES and not str(kind).startswith("decimal"):
            yield f"the partition column {name} of type {kind}"


def _is_kept(sql: str, error: str) -> "Column":
    from pyspark.sql.functions import lit, raise_error, when

    return when(_expression(sql), lit(True)).otherwise(raise_error(lit(error)).cast("boolean"))


def _expression(sql: str) -> "Column":
    from pyspark.sql.functions import expr

    return expr(sql)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
