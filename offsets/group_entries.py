"""Encoded states of groups from the checkpoint files, by incarnation, then by name.

By incarnation first, because deleting a queue removes all its groups.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from offsets.group_checkpoint import GroupKey, group_key

_NONE: Final[dict[bytes, bytes]] = {}


class GroupEntries:
    """Last known entry of every group.

    Attributes:
        total_bytes: Size of all entries.
    """

    __slots__ = ("_queues", "total_bytes")

    def __init__(self) -> None:
        self._queues: dict[bytes, dict[bytes, bytes]] = {}
        self.total_bytes = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return sum(map(len, self._queues.values()))

    def __iter__(self) -> Iterator[bytes]:
        """Yield all entries, those of one queue together."""
        for groups in self._queues.values():
            yield from groups.values()

    def apply(self, entries: Iterable[bytes], removed: Iterable[GroupKey]) -> None:
        """Apply the groups of a round.

        Args:
            entries: Whole states, which replace the previous ones of their groups.
            removed: Groups to remove, none of them in `entries`; unknown ones are ignored.
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
        """Remove all groups of a queue."""
        self.total_bytes -= sum(map(len, self._queues.pop(incarnation, _NONE).values()))

    def clear(self) -> None:
        """Remove all groups."""
        self._queues.clear()
        self.total_bytes = 0
