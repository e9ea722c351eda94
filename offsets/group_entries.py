"""Encoded states of groups, as the checkpoint files hold them: by incarnation, then by name.

By incarnation first, because a queue that is deleted takes all its groups with it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from offsets.group_checkpoint import GroupKey, group_key

_NONE: Final[dict[bytes, bytes]] = {}


class GroupEntries:
    """The last known entry of every group.

    Attributes:
        total_bytes: Sum of their sizes.
    """

    __slots__ = ("_queues", "total_bytes")

    def __init__(self) -> None:
        self._queues: dict[bytes, dict[bytes, bytes]] = {}
        self.total_bytes = 0

    def __len__(self) -> int:
        """Return how many there are."""
        return sum(map(len, self._queues.values()))

    def __iter__(self) -> Iterator[bytes]:
        """Yield all entries, those of one queue together."""
        for groups in self._queues.values():
            yield from groups.values()

    def apply(self, entries: Iterable[bytes], removed: Iterable[GroupKey]) -> None:
        """Take what a round says.

        Args:
            entries: Whole states, each in the place of what was known of its group.
            removed: Groups to forget, none of them in `entries`; unknown ones are ignored.
        """
        for entry in entries:
            incarnation, name = group_key(entry)
            groups = self._queues.setdefault(incarnation, {})
            self.total_bytes += len(entry) - len(groups.get(name, b""))
            groups[name] = entry
        for incarnation, name in removed:
            groups = self._queues.get(incarnation, {})
            self.total_bytes -= len(groups.pop(name, b""))
            if not groups:
                self._queues.pop(incarnation, None)

    def remove_queue(self, incarnation: bytes) -> None:
        """Forget all groups of a queue."""
        self.total_bytes -= sum(map(len, self._queues.pop(incarnation, _NONE).values()))

    def clear(self) -> None:
        """Forget all."""
        self._queues.clear()
        self.total_bytes = 0
