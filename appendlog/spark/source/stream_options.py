"""Options of streaming queries."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from appendlog.spark.errors import OptionError
from appendlog.spark.planning.bounds import LATEST, Bounds
from appendlog.spark.source.admission import MAX_TRIGGER_DELAY_SECONDS, Limits
from appendlog.spark.source.options import GivenOptions, Reading
from appendlog.spark.source.read_options import ReadOptions, read_options

_NUMBER: Final = re.compile(r"[0-9]{1,18}\Z")
_DELAY: Final = re.compile(r"([0-9]{1,9}) *(ms|s|m|min|h|d)\Z", re.IGNORECASE)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of a stream; picklable.

    Attributes:
        shared: Options that batch queries have too.
        starting: Start in each queue of a stream without a checkpoint.
        limits: Limits of each batch.
    """

    shared: ReadOptions
    starting: Bounds
    limits: Limits


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Parse the options of `spark.readStream`. By default a stream begins at the end.

    Raises:
        OptionError: An option is unknown, missing or malformed, or contradicts another one.
        ColumnError: An option names a column that does not exist.
        StoreError: A URL names no place in a store.
    """
    given = GivenOptions(options, Reading.STREAM)
    shared = read_options(given)
    return StreamOptions(shared, shared.starting or Bounds(LATEST), limits_of(given))


def limits_of(given: GivenOptions) -> Limits:
    """Return the limits of each batch.

    Raises:
        OptionError: A limit is malformed, or two limits contradict each other.
    """
    offsets_max = _offsets(given, "maxOffsetsPerTrigger")
    offsets_min = _offsets(given, "minOffsetsPerTrigger")
    if offsets_max is not None and offsets_min is not None and offsets_min > offsets_max:
        raise OptionError(
            "minOffsetsPerTrigger", f"{offsets_min} is more than maxOffsetsPerTrigger {offsets_max}"
        )
    if "maxTriggerDelay" in given and offsets_min is None:
        raise OptionError("maxTriggerDelay", "needs minOffsetsPerTrigger: nothing else waits")
    bytes_max = None
    if "maxBytesPerTrigger" in given:
        bytes_max = given.size_bytes("maxBytesPerTrigger", 1)
    return Limits(offsets_max, bytes_max, offsets_min, _delay_seconds(given))


def _offsets(given: GivenOptions, name: str) -> int | None:
    if name not in given:
        return None
    text = given.text(name, "").strip()
    if not _NUMBER.match(text) or int(text) == 0:
        raise OptionError(name, f"{text!r} is no number of offsets: write 100000")
    return int(text)


def _delay_seconds(given: GivenOptions) -> float:
    if "maxTriggerDelay" not in given:
        return MAX_TRIGGER_DELAY_SECONDS
    text = given.text("maxTriggerDelay", "").strip()
    found = _DELAY.match(text)
    if found is None:
        raise OptionError("maxTriggerDelay", f"{text!r} is no time: write 30s, 15m or 1h")
    return int(found[1]) * _SECONDS[found[2].lower()]
