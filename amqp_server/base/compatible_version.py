"""The version of RabbitMQ that tools see."""

from typing import Final

COMPATIBLE_VERSION: Final = "3.13.7"
"""Version of RabbitMQ whose interfaces the server has; tools choose by it what they ask for."""


def compatible_version(presented: str) -> str:
    """Return the version that tools compare.

    Args:
        presented: Version that clients see (`present_version` of the settings). It counts if
            RabbitMQ has the interfaces under that number.
    """
    return presented if presented.partition(".")[0] in ("3", "4") else COMPATIBLE_VERSION
