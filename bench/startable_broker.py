"""A broker that an experiment may start: one that stays up between its runs, or fresh ones."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.running_broker import RunningBroker


class StartableBroker:
    """Starts one broker, as often as asked; stops what is left at the end of its `with`.

    Attributes:
        name: What it is called in the report; one of `bench.brokers.STARTERS`.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[Path], AbstractContextManager[RunningBroker]],
        data_parent: Path,
    ) -> None:
        """Start nothing yet.

        Args:
            name: As the attribute.
            start: Starts it with its data in an empty directory.
            data_parent: Where it gets its directories, which are removed afterwards.
        """
        self.name = name
        self._start = start
        self._data_parent = data_parent
        self._stack = ExitStack()
        self._running: RunningBroker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def running(self) -> RunningBroker:
        """Give the one that stays up for all runs; started when first asked for, empty then.

        Raises:
            BrokerStartError: It did not start.
        """
        if self._running is None:
            self._running = self._stack.enter_context(self.start())
        return self._running

    def stop(self) -> None:
        """Stop the one that stays up; the next one is fresh."""
        self._running = None
        self._stack.close()

    @contextmanager
    def start(self) -> Iterator[RunningBroker]:
        """Start another one beside it, in an empty directory; stops it at the end of the `with`.

        Raises:
            BrokerStartError: It did not start.
        """
        with (
            tempfile.TemporaryDirectory(
                prefix="bench-", dir=self._data_parent, ignore_cleanup_errors=True
            ) as directory,
            self._start(Path(directory)) as running,
        ):
            yield running
