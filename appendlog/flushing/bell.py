"""A bell that other threads ring, and that wakes who waits for a descriptor to be readable."""

import os
from contextlib import suppress


class Bell:
    """Pipe whose reading end is readable from the first ring until `clear`.

    Attributes:
        fileno: Descriptor to wait for.
        ringing_fileno: Descriptor to which anything that is written rings, too.
    """

    def __init__(self) -> None:
        self.fileno, self.ringing_fileno = os.pipe()
        os.set_blocking(self.fileno, False)
        os.set_blocking(self.ringing_fileno, False)
        self._is_rung = False

    def ring(self) -> None:
        """Ring, from any thread; what was done before is seen by who clears the bell first."""
        if not self._is_rung:
            self._is_rung = True
            # Full: it rings already.
            with suppress(BlockingIOError):
                os.write(self.ringing_fileno, b"\1")

    def clear(self) -> None:
        """End the ringing; then look for what was done."""
        with suppress(BlockingIOError):
            os.read(self.fileno, 4096)
        self._is_rung = False

    def close(self) -> None:
        """Close the descriptors; nobody rings any more."""
        os.close(self.fileno)
        os.close(self.ringing_fileno)
