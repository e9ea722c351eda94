"""Waits for what a broker does in its own time."""

import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

from tests.limits import HANG_SECONDS

URL_VARIABLE: Final = "AMQP_URL"
SECONDS_MAX: Final = 8.0 if URL_VARIABLE in os.environ else float(HANG_SECONDS)
"""Short for another broker: of some things that tests wait for we know that it never does them."""
MILLISECOND: Final = 0.001
"""By how much a lifetime or a delay may end early: brokers count whole milliseconds."""
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
