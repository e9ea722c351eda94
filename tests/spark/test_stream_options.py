import pytest

from appendlog.spark.errors import OptionError
from appendlog.spark.source.admission import Limits
from appendlog.spark.source.options import GivenOptions, Reading
from appendlog.spark.source.stream_options import limits_of


def limits(**options: str) -> Limits:
    return limits_of(GivenOptions(options, Reading.STREAM))


def test_without_options_there_are_no_limits() -> None:
    assert limits() == Limits(None, None, None, 900.0)


def test_limits_are_numbers_sizes_and_times() -> None:
    found = limits(
        maxoffsetspertrigger="1000000000",
        minOffsetsPerTrigger=" 10 ",
        maxBytesPerTrigger="64MiB",
        maxTriggerDelay="2h",
    )
    assert found == Limits(1_000_000_000, 64 << 20, 10, 7200.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("30 s", 30), ("15m", 900), ("15min", 900), ("1H", 3600), ("1d", 86_400)],
)
def test_a_delay_has_a_unit(text: str, seconds: float) -> None:
    assert limits(minOffsetsPerTrigger="5", maxTriggerDelay=text).delay_seconds_max == seconds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": "-1"}, "'-1' is no number of offsets"),
        ({"minOffsetsPerTrigger": "1e6"}, "'1e6' is no number of offsets"),
        ({"maxBytesPerTrigger": "much"}, "'much' is no size"),
        ({"minOffsetsPerTrigger": "1", "maxTriggerDelay": "15"}, "'15' is no time"),
        ({"maxTriggerDelay": "15m"}, "needs minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "9 is more than"),
    ],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        limits(**options)
