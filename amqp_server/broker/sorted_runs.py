"""Runs in ascending order of a number, in chunks: a change moves one chunk and not all runs.

One sorted list would move half of its entries for each insertion at a random place. With hundreds
of thousands of runs that stops the event loop for seconds. Here a change costs a search among the
chunks, a search in one chunk, and a move within that chunk.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_MAX = 1024
"""Most runs of one chunk. A full chunk is split."""

Run = TypeVar("Run")


class SortedRuns(Generic[Run]):
    """Runs by distinct keys. What a run is, and where it ends, is up to the owner.

    With `n` runs, `c = n / CHUNK_MAX` chunks and `k` runs that are touched, a method costs
    O(log n + CHUNK_MAX + k), and O(c) more when chunks appear or disappear.
    """

    __slots__ = ("_count", "_firsts", "_keys", "_runs")

    def __init__(self) -> None:
        self._count = 0
        # There is always a chunk, and only a lone one may be empty. The keys of chunk N lie in
        # `[_firsts[N], _firsts[N + 1])`. Its first key may be higher than `_firsts[N]`: so taking
        # the first run of a chunk changes nothing but that chunk.
        self._firsts: list[int] = [0]
        self._keys: list[list[int]] = [[]]
        self._runs: list[list[Run]] = [[]]

    def __len__(self) -> int:
        """Return the number of runs."""
        return self._count

    def __iter__(self) -> Iterator[Run]:
        """Iterate in ascending order; the caller must not change the runs' keys during the loop."""
        return chain.from_iterable(self._runs)

    def first(self) -> Run | None:
        """Return the run with the lowest key. O(1)."""
        runs = self._runs[0]
        return runs[0] if runs else None

    def last(self) -> Run | None:
        """Return the run with the highest key. O(1)."""
        runs = self._runs[-1]
        return runs[-1] if runs else None

    def at_or_before(self, key: int) -> Run | None:
        """Return the run with the highest key that is not above `key`."""
        return self.neighbours(key)[0]

    def neighbours(self, key: int) -> tuple[Run | None, Run | None]:
        """Return the last run whose key is not above `key`, and the first whose key is above."""
        chunk = self._chunk_of(key)
        runs = self._runs[chunk]
        at = bisect_right(self._keys[chunk], key)
        before = runs[at - 1] if at else self._runs[chunk - 1][-1] if chunk else None
        if at < len(runs):
            return before, runs[at]
        return before, self._runs[chunk + 1][0] if chunk + 1 < len(self._runs) else None

    def between(self, start: int, end: int) -> list[Run]:
        """Return the runs whose keys are in `[start, end)`, ascending."""
        if start >= end:
            return []
        low, at, high, to = self._places(start, end)
        if low == high:
            return self._runs[low][at:to]
        runs = self._runs[low][at:]
        for chunk in self._runs[low + 1 : high]:
            runs += chunk
        return runs + self._runs[high][:to]

    def some_from(self, key: int) -> list[Run]:
        """Return runs from `key` on, ascending, at most `CHUNK_MAX`; none if there are none."""
        chunk = self._chunk_of(key)
        at = bisect_left(self._keys[chunk], key)
        if at == len(self._keys[chunk]) and chunk + 1 < len(self._runs):
            chunk, at = chunk + 1, 0
        return self._runs[chunk][at:]

    def count_between(self, start: int, end: int) -> int:
        """Return how many keys are in `[start, end)`. O(log n + chunks)."""
        if start >= end:
            return 0
        low, at, high, to = self._places(start, end)
        return to - at + sum(map(len, self._runs[low:high]))

    def append(self, key: int, run: Run) -> None:
        """Add a run whose key is above all others. O(1)."""
        self._count += 1
        keys = self._keys[-1]
        if len(keys) < CHUNK_MAX:
            if not keys:
                self._firsts[-1] = key
            keys.append(key)
            self._runs[-1].append(run)
        else:
            self._firsts.append(key)
            self._keys.append([key])
            self._runs.append([run])

    def insert(self, key: int, run: Run) -> None:
        """Add a run whose key is not present."""
        last = self._keys[-1]
        if not last or key > last[-1]:
            self.append(key, run)
            return
        self._count += 1
        chunk = self._chunk_of(key)
        self._firsts[chunk] = min(self._firsts[chunk], key)
        keys = self._keys[chunk]
        at = bisect_left(keys, key)
        keys.insert(at, key)
        self._runs[chunk].insert(at, run)
        if len(keys) > CHUNK_MAX:
            self._set_chunks(chunk, chunk + 1, keys, self._runs[chunk])

    def update(self, key: int, new_key: int, run: Run) -> None:
        """Replace the run at `key`, which is present.

        Args:
            key: Key of the old run.
            new_key: Key of `run`, >= `key`; there is no key between them.
            run: New run.
        """
        chunk = self._chunk_of(key) if len(self._firsts) > 1 else 0
        keys = self._keys[chunk]
        # The first run is by far the most frequent one.
        at = 0 if keys[0] == key else bisect_left(keys, key)
        keys[at] = new_key
        self._runs[chunk][at] = run
        if chunk + 1 < len(self._firsts) and new_key >= self._firsts[chunk + 1]:
            # The next chunk may have lost its first runs; then the bound between the two moves.
            self._firsts[chunk + 1] = self._keys[chunk + 1][0]

    def remove(self, key: int) -> None:
        """Remove the run at `key`, which is present."""
        chunk = self._chunk_of(key) if len(self._firsts) > 1 else 0
        keys = self._keys[chunk]
        at = 0 if keys[0] == key else bisect_left(keys, key)
        self._count -= 1
        if len(keys) == 1 and len(self._firsts) > 1:
            del self._firsts[chunk], self._keys[chunk], self._runs[chunk]
        else:
            del keys[at], self._runs[chunk][at]

    def remove_first(self) -> None:
        """Remove the run with the lowest key; there is one."""
        keys = self._keys[0]
        self._count -= 1
        if len(keys) == 1 and len(self._firsts) > 1:
            del self._firsts[0], self._keys[0], self._runs[0]
        else:
            del keys[0], self._runs[0][0]

    def replace(self, start: int, end: int, keys: list[int], runs: list[Run]) -> list[Run]:
        """Remove and return the runs with keys in `[start, end)`, and put others in their place.

        Args:
            start: First key to remove.
            end: Key after the last one; >= `start`.
            keys: Keys of `runs`, ascending, in `[start, end)`.
            runs: New runs; may be empty.
        """
        # A key above would lie in a chunk where no search looks for it.
        assert not keys or start <= keys[0] <= keys[-1] < end, "keys outside of what is replaced"
        low, at, high, to = self._places(start, end)
        if low == high and 0 < len(self._keys[low]) + at - to + len(keys) <= CHUNK_MAX:
            removed = self._runs[low][at:to]
            self._count += len(keys) - len(removed)
            self._keys[low][at:to] = keys
            self._runs[low][at:to] = runs
            self._firsts[low] = min(self._firsts[low], self._keys[low][0])
            return removed
        removed = self.between(start, end)
        self._count += len(keys) - len(removed)
        merged_keys = [*self._keys[low][:at], *keys, *self._keys[high][to:]]
        merged_runs = [*self._runs[low][:at], *runs, *self._runs[high][to:]]
        self._set_chunks(low, high + 1, merged_keys, merged_runs)
        return removed

    def take_first_chunk(self) -> list[Run]:
        """Remove and return up to `CHUNK_MAX` of the lowest runs; none if it is empty."""
        if len(self._firsts) == 1:
            return self.take_all()
        taken = self._runs[0]
        self._count -= len(taken)
        del self._firsts[0], self._keys[0], self._runs[0]
        return taken

    def take_all(self) -> list[Run]:
        """Remove and return all runs, ascending."""
        taken = list(self)
        self._count = 0
        self._firsts, self._keys, self._runs = [0], [[]], [[]]
        return taken

    def _chunk_of(self, key: int) -> int:
        return max(bisect_right(self._firsts, key) - 1, 0)

    def _places(self, start: int, end: int) -> tuple[int, int, int, int]:
        """Return chunk and place of the first key from `start` on, and of the first from `end`."""
        low = high = 0
        if len(self._firsts) > 1:
            low, high = self._chunk_of(start), self._chunk_of(end)
        return low, bisect_left(self._keys[low], start), high, bisect_left(self._keys[high], end)

    def _set_chunks(self, low: int, high: int, keys: list[int], runs: list[Run]) -> None:
        """Replace the chunks `[low, high)` by chunks of these runs, which leave room to grow."""
        if not keys and high - low == len(self._firsts):
            self._firsts, self._keys, self._runs = [0], [[]], [[]]
            return
        size = CHUNK_MAX if len(keys) <= CHUNK_MAX else CHUNK_MAX // 2
        starts = range(0, len(keys), size)
        self._firsts[low:high] = [keys[at] for at in starts]
        self._keys[low:high] = [keys[at : at + size] for at in starts]
        self._runs[low:high] = [runs[at : at + size] for at in starts]
