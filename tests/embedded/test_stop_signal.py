import sys
import threading
from types import FrameType
from typing import Any

from offsets.consuming.stop_signal import StopSignal
from tests.limits import HANG_SECONDS


def told_at(line: int) -> bool | None:
    """Wait, and be told by the waiting thread itself at its n-th line, as a signal handler would.

    Returns:
        What `wait` said; None when it has fewer lines.
    """
    stop = StopSignal()
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401 - a trace function
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == line:
                sys.settrace(None)
                stop.set()
        return trace

    waited: list[bool] = []

    def wait() -> None:
        sys.settrace(trace)
        told = stop.wait(0.01)
        sys.settrace(None)
        waited.append(told)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(HANG_SECONDS)
    assert waited, "it waits for itself"
    return waited[0] if lines >= line else None


def test_a_signal_in_the_middle_of_a_wait_ends_it() -> None:
    line = 1
    while (told := told_at(line)) is not None:
        assert told
        line += 1
    assert line > 2


def test_who_waits_is_woken_and_nobody_waits_afterwards() -> None:
    stop = StopSignal()
    assert not stop.wait(0.0)
    thread = threading.Thread(target=lambda: stop.wait(60))
    thread.start()
    stop.set()
    thread.join(HANG_SECONDS)
    assert not thread.is_alive()
    assert stop.is_set()
    assert stop.wait(60)
