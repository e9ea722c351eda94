"""A program: one of several processes that export the same ranges into the same output.

`python -m tests.spark.racing_exports DIRECTORY locks|nolocks` waits for a line on standard
input, then prints how many of its commits succeeded and how many were refused.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.stores.local_store import LocalStore
from tests.spark.commits import destination, export

ROUNDS = 25
ROUND_OFFSETS = 7


class StoreWithoutLocks(LocalStore):
    """A directory that is as helpless as an object store."""

    @contextmanager
    def locked(self, path: str) -> Iterator[bool]:
        yield False


def main(root: Path, kind: str) -> None:
    """Export again and again; who is refused plans again."""
    to = destination((LocalStore if kind == "locks" else StoreWithoutLocks)(root))
    sys.stdin.readline()
    won = refused = 0
    for end in range(ROUND_OFFSETS, (ROUNDS + 1) * ROUND_OFFSETS, ROUND_OFFSETS):
        while to.last_end() is None or end > (to.last_end() or 0):
            try:
                won += export(to, end)
            except OutputError:
                refused += 1
    print(won, refused)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
