"""Parses the options of a reader.

Names are Kafka's where Kafka has them. The case of names does not matter, as everywhere in Spark.
An option without effect is an error: one that is misspelled, that is for the other kind of query,
or that contradicts another one must not silently lead to wrong rows.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from appendlog.spark.errors import OptionError

STORE_PREFIX: Final = "fs."
"""Prefix of the options of the object store that the data directory is in."""


class Reading(Enum):
    """Kind of query; the value is Spark's name for its reader."""

    BATCH = "read"
    STREAM = "readStream"


_SHARED: Final = (
    "path",
    "uri",
    "vhost",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxBytesPerPartition",
    "includeHeaders",
    "headersAs",
    "kafkaSchema",
    "verifyCrc",
    "decompress",
    "failOnDataLoss",
    "mode",
    "columnNameOfCorruptRecord",
    "columns",
)
_ONLY: Final = {
    Reading.BATCH: (
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "include",
        "pushDownFilters",
    ),
    Reading.STREAM: (
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "maxBytesPerTrigger",
    ),
}
_BY_LOWER: Final = {name.lower(): name for names in (_SHARED, *_ONLY.values()) for name in names}
_OF_TABLES: Final = frozenset(("location", "provider", "owner"))
"""Options that Spark adds if a table is created, depending on the statement."""
_SIZE: Final = re.compile(r"([0-9]{1,18}) *([kmgt]?)(?:i?b)?\Z", re.IGNORECASE)
_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_COUNT_MAX: Final = 1_000_000


class GivenOptions:
    """Options by their documented names; picklable.

    Args:
        options: Options as Spark passes them.
        reading: Kind of query; None if Spark does not say it, which allows the options of both.

    Raises:
        OptionError: An option is unknown, or is one of the other kind of query.
    """

    def __init__(self, options: Mapping[str, str], reading: Reading | None) -> None:
        self._texts: dict[str, str] = {}
        self.store: dict[str, str] = {}
        for key, text in options.items():
            if key.lower().startswith(STORE_PREFIX):
                self.store[key[len(STORE_PREFIX) :].lower()] = text
                continue
            name = _known(key)
            for other in Reading:
                if reading not in (None, other) and name in _ONLY[other]:
                    raise OptionError(name, f"is an option of spark.{other.value} only")
            self._texts[name] = text

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def text(self, name: str, default: str) -> str:
        """Return the value of an option."""
        return self._texts.get(name, default)

    def one_of(self, *names: str) -> str | None:
        """Return the one of these options that was given; None if none was.

        Raises:
            OptionError: More than one was given.
        """
        given = [name for name in names if name in self._texts]
        if len(given) > 1:
            raise OptionError(given[1], f"contradicts {given[0]}: give one of {_or(names)}")
        return given[0] if given else None

    def choice(self, name: str, default: str, allowed: Iterable[str]) -> str:
        """Return the word that an option has as its value; its case does not matter.

        Raises:
            OptionError: The value is none of the words.
        """
        text = self._texts.get(name, default)
        for word in allowed:
            if word.lower() == text.strip().lower():
                return word
        raise OptionError(name, f"{text!r} is not one of {', '.join(allowed)}")

    def flag(self, name: str, *, default: bool) -> bool:
        """Return whether an option is true.

        Raises:
            OptionError: The value is neither true nor false.
        """
        return self.choice(name, str(default).lower(), ("true", "false")) == "true"

    def count(self, name: str, default: int) -> int:
        """Return a count, 1 to a million.

        Raises:
            OptionError: The value is no such number.
        """
        text = self._texts.get(name, str(default)).strip()
        if re.fullmatch(r"[0-9]{1,9}", text) and 1 <= int(text) <= _COUNT_MAX:
            return int(text)
        raise OptionError(name, f"{text!r} is no number from 1 to {_COUNT_MAX}")

    def size_bytes(self, name: str, default: int) -> int:
        """Return a size in bytes, 1 or more: 67108864, 64m, 64MB and 64MiB are the same.

        Raises:
            OptionError: The value is no such size.
        """
        text = self._texts.get(name, str(default)).strip()
        found = _SIZE.match(text)
        size = int(found[1]) << _SHIFTS[found[2].lower()] if found else 0
        if not 0 < size < 1 << 62:
            raise OptionError(name, f"{text!r} is no size: write 67108864, 64m or 64MiB")
        return size


def _known(key: str) -> str:
    """Return the documented name of an option."""
    name = _BY_LOWER.get(key.lower())
    if name is not None:
        return name
    if key.lower().startswith("kafka."):
        raise OptionError(key, "there is no broker to connect to: give the data directory as path")
    if key.lower() in _OF_TABLES:
        raise OptionError(
            key,
            "is of a table in a catalog, for which Spark hands no options to sources in Python: "
            "write CREATE TEMPORARY VIEW ... USING amqplog OPTIONS (...)",
        )
    near = difflib.get_close_matches(key.lower(), _BY_LOWER, 1, cutoff=0.5)
    advice = (
        f"did you mean {_BY_LOWER[near[0]]}?" if near else "docs/spark-reading.md has all of them"
    )
    raise OptionError(key, f"is no option of amqplog; {advice}")


def _or(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"
