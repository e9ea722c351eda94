"""Durations as texts in the arguments of streams: `7D`, `1h`, `30s`.

Source: RabbitMQ `rabbit_amqqueue:check_max_age`: a number above 0 and one of the units `Y`, `M`
(30 days), `D`, `h`, `m`, `s`.
"""

import re
from typing import Final

AGE_NS_MAX: Final = (1 << 63) - 1
"""Longest duration, 292 years; longer ones are reduced to it."""
_DAY_SECONDS: Final = 24 * 60 * 60
_UNIT_SECONDS: Final = {
    b"Y": 365 * _DAY_SECONDS,
    b"M": 30 * _DAY_SECONDS,
    b"D": _DAY_SECONDS,
    b"h": 60 * 60,
    b"m": 60,
    b"s": 1,
}
# Python refuses to read numbers of thousands of digits.
_AGE: Final = re.compile(rb"([0-9]{1,100})([YMDhms])")


def age_ns(text: bytes) -> int | None:
    """Return a duration in nanoseconds, 1 s to `AGE_NS_MAX`; None if the text is not valid."""
    match = _AGE.fullmatch(text)
    if match is None or not int(match[1]):
        return None
    return min(int(match[1]) * _UNIT_SECONDS[match[2]] * 10**9, AGE_NS_MAX)
