"""Waits for what a broker does in its own time."""

import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

URL_VARIABLE: Final = "AMQP_URL"
SECONDS_MAX: Final = 8.0 if URL_VARIABLE in os.environ else 120.0
"""Long enough for any machine; of another broker we know that some things never come."""
_LOOK_SECONDS: Final = 0.01
ValueT = TypeVar("ValueT")


def eventually(look: Callable[[], ValueT], *, seconds_max: float = SECONDS_MAX) -> ValueT:
    """Look again and again until there is something true to see, and return it.

    Raises:
        AssertionError: There was nothing in time.
    """
    deadline = time.monotonic() + seconds_max
    while not (seen := look()):
        assert time.monotonic() < deadline, f"still {seen!r} after {seconds_max} s"
        time.sleep(_LOOK_SECONDS)
    return seen
