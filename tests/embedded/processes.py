"""Other processes that use the library: what they print is what they were promised."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.limits import HANG_SECONDS

REPOSITORY = Path(__file__).parents[2]


class Process:
    """A Python program that is killed at the end, whatever happens.

    Args:
        code: Its source; `sys` and `root` (a Path) are there already.
        root: The data directory.
    """

    def __init__(self, code: str, root: Path) -> None:
        source = f"import sys\nfrom pathlib import Path\nroot = Path(sys.argv[1])\n{code}"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", source, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def line(self) -> str:
        """Return the next line it prints; empty at its end."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def tell(self, line: str) -> None:
        """Send it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> list[str]:
        """SIGKILL it; return the whole lines that were still in the pipe."""
        self._process.kill()
        assert self._process.stdout is not None
        rest = self._process.stdout.read()
        self._process.wait()
        return rest.split("\n")[:-1]

    def wait(self) -> int:
        """Return its exit code once it has ended by itself."""
        return self._process.wait(timeout=HANG_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
