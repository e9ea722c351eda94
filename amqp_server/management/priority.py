"""The priority of the management server: below that of the broker, which shares its cores."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Final

NICENESS: Final = 10
"""What is added to the niceness of the broker: about a tenth of its share of a core that both want.

It is no less, because an operator looks at the page when the broker is busy.
"""


def lower_priority() -> None:
    """Lower the priority of this process; its later threads inherit it.

    On Linux it is a batch process as well: when it wakes up, it interrupts nobody who runs. Where
    the system refuses something, or has no such thing, the process goes on as it is.
    """
    with suppress(OSError):
        os.nice(NICENESS)
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
