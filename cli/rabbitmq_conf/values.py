"""Values of `rabbitmq.conf`, translated into the notation of our options.

Each function takes the text of an entry and returns what a user would write behind our option, or
a truth value where the option is a flag. It raises `ValueError` with the reason if the text is not
a value of the key.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from amqp_server.base.config import BOUNDS

_MEMORY: Final = re.compile(r"([0-9]{1,18}) ?([A-Za-z]*)", re.ASCII)
_MEMORY_UNITS: Final[Mapping[str, int]] = MappingProxyType(
    {"": 1, "b": 1}
    | {
        name: base**power
        for power, letter in enumerate("kmgt", 1)
        for name, base in ((letter, 1024), (f"{letter}ib", 1024), (f"{letter}b", 1000))
    }
)
_BYTE_UNITS: Final[Mapping[str, int]] = MappingProxyType(
    {"": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
)
_LEVELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "debug": "debug",
        "info": "info",
        "notice": "info",
        "warning": "warning",
        "error": "error",
        "critical": "error",
        "alert": "error",
        "emergency": "error",
    }
)


def text(value: str) -> str:
    """Return the value unchanged."""
    return value


def whole_number(value: str) -> int:
    """Return a number of 0 or more."""
    if not re.fullmatch(r"[0-9]{1,18}", value, re.ASCII):
        raise ValueError(f"{value!r} is not a whole number")
    return int(value)


def truth(value: str) -> bool:
    """Return a truth value, which RabbitMQ writes `true` or `false`."""
    if value not in ("true", "false"):
        raise ValueError(f"{value!r} is neither true nor false")
    return value == "true"


def truth_word(value: str) -> str:
    """Return a truth value for an option that takes one as a word."""
    return str(truth(value)).lower()


def port(value: str) -> str:
    """Return a TCP port."""
    number = whole_number(value)
    if not 0 < number <= 65_535:
        raise ValueError(f"{value!r} is not a port: write 1 to 65535")
    return str(number)


def seconds(value: str) -> str:
    """Return a duration that RabbitMQ writes in seconds."""
    return f"{whole_number(value)}s"


def milliseconds(value: str) -> str:
    """Return a duration that RabbitMQ writes in milliseconds."""
    return f"{whole_number(value)}ms"


def count(setting: str, *, zero_is_unlimited: bool = False) -> "_Count":
    """Return the translation of a number that may be unlimited.

    Args:
        setting: Field of `ServerConfig` whose largest value stands for no limit.
        zero_is_unlimited: Whether 0 means no limit, beside `infinity`.
    """
    return _Count(setting, zero_is_unlimited=zero_is_unlimited)


class _Count:
    def __init__(self, setting: str, *, zero_is_unlimited: bool) -> None:
        self._most = int(BOUNDS[setting].most)
        self._zero_is_unlimited = zero_is_unlimited

    def __call__(self, value: str) -> str:
        if value == "infinity" or (self._zero_is_unlimited and value == "0"):
            return str(self._most)
        return str(whole_number(value))


def byte_size(value: str) -> str:
    """Return a size whose units count by 1024: `131072`, `128KB`."""
    return str(_quantity(value, _BYTE_UNITS, "128KB"))


def frame_size(value: str) -> str:
    """Return the largest frame; 0 means no limit."""
    size = _quantity(value, _BYTE_UNITS, "128KB")
    return str(size or int(BOUNDS["frame_bytes_max"].most))


def memory_size(value: str) -> str:
    """Return a size of memory or disk: `2GB` counts by 1000, `2GiB` and `2G` by 1024."""
    return str(_quantity(value, _MEMORY_UNITS, "2GB"))


def share(value: str) -> str:
    """Return a fraction of the memory, such as `0.6`; 0 blocks every publisher."""
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,9})?", value, re.ASCII) or float(value) > 1:
        raise ValueError(f"{value!r} is not a share of the memory, from 0 to 1")
    return value


def factor(value: str) -> float:
    """Return how many times the memory something is, such as `1.5`."""
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", value, re.ASCII):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def log_level(value: str) -> str:
    """Return the nearest of our levels that leaves nothing out which RabbitMQ would log."""
    if value not in _LEVELS:
        raise ValueError(f"{value!r} is no level: write one of {', '.join(_LEVELS)}")
    return _LEVELS[value]


def log_format(value: str) -> str:
    """Return the format of log lines."""
    formats = {"plaintext": "text", "json": "json"}
    if value not in formats:
        raise ValueError(f"{value!r} is neither plaintext nor json")
    return formats[value]


def verify(value: str) -> str:
    """Return whether clients are asked for a certificate."""
    choices = {"verify_peer": "peer", "verify_none": "none"}
    if value not in choices:
        raise ValueError(f"{value!r} is neither verify_peer nor verify_none")
    return choices[value]


def certificate_name(value: str) -> str:
    """Return where a certificate has the name of its user."""
    return "subject_alternative_name" if value == "subject_alt_name" else value


def one_file(value: str) -> str:
    """Return the path of a file; our options list several, separated by commas."""
    if "," in value:
        raise ValueError(f"{value!r} has a comma, which separates files here: rename the file")
    return value


def _quantity(value: str, units: Mapping[str, int], example: str) -> int:
    found = _MEMORY.fullmatch(value)
    if found is None or found[2].lower() not in units:
        raise ValueError(f"{value!r} is not a size: write bytes, or for example {example}")
    return int(found[1]) * units[found[2].lower()]
