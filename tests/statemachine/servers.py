"""The server that runs of the machine share."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from tests.servers import RunningServer


class Servers:
    """The server that runs follow one another on; a run that failed leaves none.

    Args:
        module: Module that is run, as `RunningServer` has it.
    """

    def __init__(self, module: str = "amqp_server") -> None:
        self._module = module
        self._stack = ExitStack()
        self._running: RunningServer | None = None
        self._numbers = count()

    def get(self) -> tuple[RunningServer, str]:
        """Return a running server, and a prefix for all names of the next run."""
        if self._running is None:
            directory = self._stack.enter_context(tempfile.TemporaryDirectory())
            server = RunningServer(Path(directory) / "data", module=self._module)
            self._running = self._stack.enter_context(server).start()
        return self._running, f"{next(self._numbers)}-"

    def end_run(self, *, failed: bool) -> None:
        """Keep the server for the next run unless this one failed."""
        assert self._running is not None
        faults, self._running.messages = self._running.faults, []
        if failed or faults:
            self.close()
        assert not faults or failed, "".join(faults)

    def close(self) -> None:
        """End the server, if there is one."""
        self._running = None
        self._stack.close()
