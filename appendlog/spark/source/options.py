"""The options that a reader was given: which there are, and what each may look like.

Names are Kafka's where Kafka has them, and upper and lower case are the same, as everywhere in
Spark. What nobody would act on is an error: an option that is misspelled, that is of the other
kind of reading, or that contradicts another one must not read the wrong rows in silence.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from appendlog.spark.errors import OptionError

STORE_PREFIX: Final = "fs."
"""Options of the store that the data directory is in."""


class Reading(Enum):
    """In what way rows are read; the value is the call of Spark's that does it."""

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
"""What Spark adds where a table is created; some of it, whichever way that is written."""
_SIZE: Final = re.compile(r"([0-9]{1,18}) *([kmgt]?)(?:i?b)?\Z", re.IGNORECASE)
_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_COUNT_MAX: Final = 1_000_000


class GivenOptions:
    """Options by their names as they are documented; picklable.

    Args:
        options: As Spark hands them over.
        reading: In what way rows are read; None where Spark does not say, which allows both.

    Raises:
        OptionError: One is unknown, or is of the other way.
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
        """Return what an option says."""
        return self._texts.get(name, default)

    def one_of(self, *names: str) -> str | None:
        """Return which one of some options was given; None for none of them.

        Raises:
            OptionError: More than one was.
        """
        given = [name for name in names if name in self._texts]
        if len(given) > 1:
            raise OptionError(given[1], f"contradicts {given[0]}: give one of {_or(names)}")
        return given[0] if given else None

    def choice(self, name: str, default: str, allowed: Iterable[str]) -> str:
        """Return the one of some words that an option says, in whichever case.

        Raises:
            OptionError: It is none of them.
        """
        text = self._texts.get(name, default)
        for word in allowed:
            if word.lower() == text.strip().lower():
                return word
        raise OptionError(name, f"{text!r} is not one of {', '.join(allowed)}")

    def flag(self, name: str, *, default: bool) -> bool:
        """Return whether an option is true.

        Raises:
            OptionError: It is neither true nor false.
        """
        return self.choice(name, str(default).lower(), ("true", "false")) == "true"

    def count(self, name: str, default: int) -> int:
        """Return a number of things, 1 to a million.

        Raises:
            OptionError: It is none.
        """
        text = self._texts.get(name, str(default)).strip()
        if re.fullmatch(r"[0-9]{1,9}", text) and 1 <= int(text) <= _COUNT_MAX:
            return int(text)
        raise OptionError(name, f"{text!r} is no number from 1 to {_COUNT_MAX}")

    def size_bytes(self, name: str, default: int) -> int:
        """Return a size in bytes, 1 or more: 67108864, 64m, 64MB and 64MiB are the same.

        Raises:
            OptionError: It is none.
        """
        text = self._texts.get(name, str(default)).strip()
        found = _SIZE.match(text)
        size = int(found[1]) << _SHIFTS[found[2].lower()] if found else 0
        if not 0 < size < 1 << 62:
            raise OptionError(name, f"{text!r} is no size: write 67108864, 64m or 64MiB")
        return size


def _known(key: str) -> str:
    """Return the name of an option as it is documented."""
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
    advice = f"did you mean {_BY_LOWER[near[0]]}?" if near else "docs/spark.md has all of them"
    raise OptionError(key, f"is no option of amqplog; {advice}")


def _or(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"
