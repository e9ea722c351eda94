"""What the committer keeps until the disk has it elsewhere: redo files, and segments they need."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from amqp_server.upkeep.committer import Committer
from offsets import RedoTransaction

NUMBER = 7
"""Number of the first journal file."""


class Journal:
    """A journal on no disk; a file that is begun is the last one from then on."""

    def __init__(self) -> None:
        self.last_number = NUMBER - 1
        self.file_bytes = 0

    def write(self, number: int, records: Sequence[RedoTransaction]) -> None:
        assert records
        self.last_number = number


class StoredQueue:
    """A queue whose log ends at `written_end`, of which the disk has all below `recovery_point`."""

    def __init__(self) -> None:
        self.is_deleted = False
        self.store = SimpleNamespace(written_end=0, recovery_point=0)


class OneCommit:
    """A commit that puts some messages into a queue, which are written but not synced.

    Args:
        queue: The queue.
        count: How many messages.
        hint: Lowest offset that they may get; None: the end of the log when it is recorded.
    """

    client = SimpleNamespace(name="client", task_queue=None)

    def __init__(self, queue: StoredQueue, count: int, hint: int | None = None) -> None:
        self.reached: dict[StoredQueue, int] = {}
        self._queue = queue
        self._count = count
        self._hint = hint

    async def make_ready(self) -> None:
        pass

    def record(self) -> Generator[None, None, tuple[RedoTransaction, dict[StoredQueue, int]]]:
        yield
        record = RedoTransaction(bytes(16), [], [], [])
        hint = self._queue.store.written_end if self._hint is None else self._hint
        return record, {self._queue: hint}

    def schedule(self, steps: Iterator[None]) -> None:
        for _ in steps:
            pass

    def carry_out(self) -> Iterator[None]:
        yield
        self._queue.store.written_end += self._count
        self.reached[self._queue] = self._queue.store.written_end


def with_commits(*commits: OneCommit, in_one_file: bool = True) -> Committer:
    """Return a committer that has carried out some commits, one after the other.

    Args:
        commits: The commits.
        in_one_file: Whether one journal file has all of them; else each has a file of its own, as
            a checkpoint between them makes it.
    """

    async def run() -> Committer:
        tasks = []

        def spawn(work: Coroutine[None, None, None]) -> None:
            tasks.append(asyncio.ensure_future(work))

        journal: Any = Journal()
        turn: Any = SimpleNamespace(jobs=set(), cuts_jobs=False)
        unused: Any = None
        committer = Committer(journal, unused, turn, spawn, unused)
        for commit in commits:
            each: Any = commit
            await committer.commit(each)
            if not in_one_file:
                committer.begin_round()
        await asyncio.gather(*tasks)
        return committer

    return asyncio.run(run())


def test_a_redo_file_stays_until_its_messages_are_synced_not_only_written() -> None:
    """A power cut takes what is only written: the redo file is all that is left of it."""
    queue = StoredQueue()
    committer = with_commits(OneCommit(queue, 5))
    assert queue.store.written_end == 5
    assert committer.begin_round() == []
    queue.store.recovery_point = 4
    assert committer.begin_round() == []
    queue.store.recovery_point = 5
    assert committer.begin_round() == [NUMBER]


def test_a_log_keeps_all_from_the_first_commit_of_a_redo_file_on() -> None:
    """A start that does not find the messages of the first commit appends them again."""
    queue = StoredQueue()
    queue.store.written_end = 3
    committer = with_commits(OneCommit(queue, 5), OneCommit(queue, 2))
    assert queue.store.written_end == 10
    assert [*committer.kept_from().values()] == [3]


@pytest.mark.parametrize("hints", [(3, 8), (8, 3), (8, 3, 9)])
def test_a_log_keeps_what_any_of_several_redo_files_needs(hints: tuple[int, ...]) -> None:
    """The oldest file may need the lowest offset, or a later one whose record took long."""
    queue = StoredQueue()
    commits = [OneCommit(queue, 1, hint) for hint in hints]
    committer = with_commits(*commits, in_one_file=False)
    assert [*committer.kept_from().values()] == [3]
    queue.store.recovery_point = len(hints)
    files = committer.begin_round()
    assert files == [*range(NUMBER, NUMBER + len(hints))]
