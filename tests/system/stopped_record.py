"""A commit whose record, which is made in steps, stops before one of them."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from amqp_server.broker.queue import Queue
from amqp_server.broker.transactions.commit import Commit
from offsets import RedoTransaction


class StoppedRecord:
    """Stops the record of the first commit before a step; those of other commits are made.

    Attributes:
        has_stopped: Set when the first record has stopped, or is complete.
        is_long_enough: Whether it had so many steps.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_stopped = threading.Event()
        self.is_long_enough = False
        self._before: int | None = None
        self._first: Commit | None = None
        make = Commit.record

        def record(
            commit: Commit,
        ) -> Generator[None, None, tuple[RedoTransaction, dict[Queue, int]]]:
            if self._before is None or self._first not in (None, commit):
                return (yield from make(commit))
            self._first = commit
            steps, number = make(commit), 0
            while True:
                if number == self._before:
                    self.is_long_enough = True
                    self.has_stopped.set()
                while self._before == number and self._first is commit:
                    yield
                try:
                    next(steps)
                except StopIteration as made:
                    self.has_stopped.set()
                    whole: tuple[RedoTransaction, dict[Queue, int]] = made.value
                    return whole
                number += 1
                yield

        monkeypatch.setattr(Commit, "record", record)

    def before(self, step: int) -> None:
        """Stop the record of the next commit before a step."""
        self.has_stopped.clear()
        self.is_long_enough = False
        self._first = None
        self._before = step

    def go_on(self) -> None:
        """Let it be made to its end."""
        self._before = None
