"""The query over the export: Spark SQL, only on the Parquet files."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from cli.demo.flights import find_data

QUERY: Final = """
SELECT flight.carrier, airlines.name, count(*) AS flights,
       avg(flight.dep_delay) AS delay_minutes
FROM (SELECT from_json(CAST(value AS STRING), 'carrier STRING, dep_delay DOUBLE') AS flight
      FROM exported)
LEFT JOIN airlines ON airlines.carrier = flight.carrier
GROUP BY ALL
ORDER BY flights DESC, flight.carrier
""".strip()


class CarrierDelay(NamedTuple):
    """Row of the result.

    Attributes:
        carrier: Code of the carrier, two characters.
        airline: Name of the airline; None if it has none.
        flights: Number of flights.
        delay_minutes: Mean delay of departures, in minutes; None if none departed.
    """

    carrier: str
    airline: str | None
    flights: int
    delay_minutes: float | None


def why_no_spark() -> str | None:
    """Return what Spark lacks and how to install it, in one line; None if nothing is missing."""
    from appendlog.spark.errors import JavaError
    from appendlog.spark.running.java import check_java

    for library in ("pyspark", "pyarrow"):
        if find_spec(library) is None:
            return f"Spark needs {library}: pip install 'amqp-server[spark]'"
    try:
        check_java()
    except JavaError as error:
        return str(error)
    return None


def query_delays(out: Path, log_path: Path) -> list[CarrierDelay]:
    """Start Spark on this machine and return flights and mean delay of each carrier.

    Args:
        out: Directory that was passed to the export as `--out`.
        log_path: File for the output of Spark.

    Raises:
        AmqplogError: Spark did not start.
    """
    from appendlog.spark.running.session import spark_session

    with spark_session("local[*]", log_path) as session:
        session.read.parquet(str(out)).createOrReplaceTempView("exported")
        airlines = session.read.csv(str(find_data() / "airlines.csv"), header=True)
        airlines.createOrReplaceTempView("airlines")
        return [CarrierDelay(*row) for row in session.sql(QUERY).collect()]


def format_table(rows: Sequence[CarrierDelay]) -> str:
    """Return the rows as text, one line each, under a header."""
    lines = [f"{'carrier':<8}{'airline':<30}{'flights':>9}{'mean delay':>14}"]
    for row in rows:
        delay = "-" if row.delay_minutes is None else f"{row.delay_minutes:.1f} min"
        lines.append(f"{row.carrier:<8}{row.airline or '?':<30}{row.flights:>9}{delay:>14}")
    return "\n".join(lines)
