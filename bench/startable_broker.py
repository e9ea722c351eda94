"""A broker that an experiment may start: one that stays up between its runs, or fresh ones."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Self

from bench.running_broker import RunningBroker


class StartableBroker:
    """Starts one broker as often as needed; stops what still runs at the end of its `with`.

    Args:
        name: Name in the report; one of `bench.brokers.STARTERS`.
        start: Starts the broker with its data in an empty directory.
        data_parent: Directory for the data directories, which are removed afterwards.

    Attributes:
        name: The same name.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[Path], AbstractContextManager[RunningBroker]],
        data_parent: Path,
    ) -> None:
        self.name = name
        self._start = start
        self._data_parent = data_parent
        self._stack = ExitStack()
        self._running: RunningBroker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def running(self) -> RunningBroker:
        """Return the broker that stays up for all runs; the first call starts it, empty.

        Raises:
            BrokerStartError: The broker did not start.
        """
        if self._running is None:
            self._running = self._stack.enter_context(self.start())
        return self._running

    def stop(self) -> None:
        """Stop the broker that stays up; the next call of `running` starts a fresh one."""
        self._running = None
        self._stack.close()

    @contextmanager
    def start(self) -> Iterator[RunningBroker]:
        """Start another broker in an empty directory; stop it at the end of the `with`.

        Raises:
            BrokerStartError: The broker did not start.
        """
        with (
            tempfile.TemporaryDirectory(
                prefix="bench-", dir=self._data_parent, ignore_cleanup_errors=True
            ) as directory,
            self._start(Path(directory)) as running,
        ):
            yield running
