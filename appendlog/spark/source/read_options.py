"""Options that batch and streaming queries share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote

from pyspark.sql.types import StructType

from appendlog.spark.errors import BoundError, OptionError, SubscriptionError
from appendlog.spark.objects.location import Location, storage_path
from appendlog.spark.objects.store_options import StoreOptions
from appendlog.spark.planning.bound_texts import parse_offsets, parse_times
from appendlog.spark.planning.bounds import Bounds, IfNoneLater
from appendlog.spark.planning.choosing import Subscription
from appendlog.spark.planning.packing import PARTITION_BYTES
from appendlog.spark.schema.columns import KNOWN_ROWS, ROWS, RowSchema
from appendlog.spark.schema.forms import HEADERS_FORMS, kafka_rows, with_headers_as
from appendlog.spark.source.options import GivenOptions, Reading
from appendlog.spark.source.row_layout import RowLayout, choose_columns, layout_of

CORRUPT_COLUMN: Final = "_corrupt_record"
_T = TypeVar("_T")


class OnDamage(StrEnum):
    """Behaviour of a reader when a log is damaged, in Spark's words."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a query; picklable.

    Attributes:
        storage_path: Data directory, on this machine or in an object store.
        store_options: Options of that store.
        vhost: Virtual host of all queues.
        subscription: Queues to read.
        starting: Start of the range in each queue; None if the user gave none.
        if_none_later: Meaning of a starting time that is after all messages.
        is_loss_fatal: Whether offsets that retention removed end the query.
        on_damage: What to do about damage in a log.
        corrupt_column: Name of the column that describes damage.
        columns: Columns of rows, unless the user gives a schema.
        unpacks_bodies: Whether to unpack bodies that publishers compressed.
        partition_bytes: Intended bytes of log for each task.
        min_partitions: Least number of tasks, about.
    """

    storage_path: Path
    store_options: StoreOptions
    vhost: str
    subscription: Subscription
    starting: Bounds | None
    if_none_later: IfNoneLater
    is_loss_fatal: bool
    on_damage: OnDamage
    corrupt_column: str
    columns: RowSchema
    unpacks_bodies: bool
    partition_bytes: int
    min_partitions: int

    @property
    def ddl(self) -> str:
        """Return the columns of rows, unless the user gives a schema, as Spark's DDL."""
        if self.on_damage is OnDamage.PERMISSIVE:
            name = self.corrupt_column.replace("`", "``")
            return f"{self.columns.ddl}, `{name}` STRING"
        return self.columns.ddl

    def layout(self, wanted: StructType) -> RowLayout:
        """Return the layout of batches for a schema.

        Raises:
            ColumnError: The schema has columns that do not exist, or that have another type.
        """
        has_corrupt_rows = self.on_damage is OnDamage.PERMISSIVE
        return layout_of(wanted, self.corrupt_column, has_corrupt_rows=has_corrupt_rows)


def read_options(given: GivenOptions) -> ReadOptions:
    """Parse the options that both kinds of query share.

    Raises:
        OptionError: An option is missing or malformed, or contradicts another one.
        ColumnError: An option names a column that does not exist.
        StoreError: A URL names no place in a store.
    """
    corrupt_column = given.text("columnNameOfCorruptRecord", CORRUPT_COLUMN)
    taken = {name.lower() for name in KNOWN_ROWS.names}
    if not corrupt_column or corrupt_column.lower() in taken:
        raise OptionError(
            "columnNameOfCorruptRecord", f"{corrupt_column!r} is the name of another column"
        )
    if not given.flag("verifyCrc", default=True):
        raise OptionError("verifyCrc", "checksums are always verified: nothing else shows damage")
    path = _storage_path(given)
    location = Location.of(path)
    store = StoreOptions.of(given.store)
    return ReadOptions(
        storage_path=path,
        store_options=store if location is None else store.with_environment(location.scheme),
        vhost=given.text("vhost", "/"),
        subscription=_subscription(given),
        starting=bounds_of(given, "starting"),
        if_none_later=IfNoneLater(
            given.choice("startingOffsetsByTimestampStrategy", "error", tuple(IfNoneLater))
        ),
        is_loss_fatal=given.flag("failOnDataLoss", default=True),
        on_damage=OnDamage(given.choice("mode", OnDamage.FAILFAST, tuple(OnDamage))),
        corrupt_column=corrupt_column,
        columns=_columns(given),
        unpacks_bodies=given.flag("decompress", default=False),
        partition_bytes=given.size_bytes("maxBytesPerPartition", PARTITION_BYTES),
        min_partitions=given.count("minPartitions", 1),
    )


def parse_read_options(options: Mapping[str, str], reading: Reading | None) -> ReadOptions:
    """Parse options of an unknown kind of query; see `GivenOptions` and `read_options`."""
    return read_options(GivenOptions(options, reading))


def bounds_of(given: GivenOptions, which: str) -> Bounds | None:
    """Return the bounds of one end of the ranges; None if the user gave none.

    Args:
        given: All options of the query.
        which: `starting` or `ending`.

    Raises:
        OptionError: The bounds are given twice, or are malformed.
    """
    offsets, time, times = (
        f"{which}{name}" for name in ("Offsets", "Timestamp", "OffsetsByTimestamp")
    )
    name = given.one_of(offsets, time, times)
    if name is None:
        return None
    return understood(name, parse_offsets if name == offsets else parse_times, given.text(name, ""))


def understood(name: str, parse: Callable[[str], _T], text: str) -> _T:
    """Return the parsed value of an option.

    Raises:
        OptionError: The value is malformed.
    """
    try:
        return parse(text)
    except (BoundError, SubscriptionError) as error:
        raise OptionError(name, str(error)) from None


def _storage_path(given: GivenOptions) -> Path:
    name = given.one_of("path", "uri")
    if name is None:
        raise OptionError(
            "path", "is missing: give the data directory, as in load('/var/lib/amqp')"
        )
    text = given.text(name, "").strip()
    if not text:
        raise OptionError(name, "is empty: give the data directory of the server")
    if text.startswith("file:/"):
        text = unquote(text.removeprefix("file:").removeprefix("//"))
    path = storage_path(text)
    # Tasks may run in another working directory than the user.
    return path if Location.of(path) else path.absolute()


def _subscription(given: GivenOptions) -> Subscription:
    ways: dict[str, Callable[[str], Subscription]] = {
        "subscribe": Subscription.to_names,
        "subscribePattern": Subscription.to_pattern,
        "assign": Subscription.to_assignment,
    }
    name = given.one_of(*ways)
    if name is None:
        raise OptionError("subscribe", "is missing: name the queues, as in orders,invoices")
    return understood(name, ways[name], given.text(name, ""))


def _columns(given: GivenOptions) -> RowSchema:
    is_kafka = given.flag("kafkaSchema", default=False)
    if is_kafka and "headersAs" in given:
        raise OptionError("headersAs", "contradicts kafkaSchema, which has headers as Kafka's")
    has_headers = given.flag("includeHeaders", default=not is_kafka)
    form = given.choice("headersAs", "map", tuple(HEADERS_FORMS))
    rows = kafka_rows(include_headers=has_headers) if is_kafka else with_headers_as(form, ROWS)
    if "columns" not in given:
        return rows if has_headers else rows.without({"headers"})
    names = [name.strip() for name in given.text("columns", "").split(",")]
    names = [name for name in names if name]
    if not names:
        raise OptionError("columns", "names no column: write key,value,offset")
    if "headers" in names and "includeHeaders" in given and not has_headers:
        raise OptionError("columns", "names headers, but includeHeaders is false")
    known = with_headers_as(form)
    if is_kafka:
        kafka = kafka_rows(include_headers=True)
        known = RowSchema((*known.without(kafka.names).columns, *kafka.columns))
    return choose_columns(names, known)
