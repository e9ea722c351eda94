"""A bounded memory of what was looked up: what is used again stays, the rest is forgotten.

Two generations: what is new or found goes into the recent one. When that is full it becomes the
older one, and what was in the older one is forgotten. So a few keys more than there is room for
cost a few lookups more, and nothing is sorted or counted when a key is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _one(_value: object) -> int:
    return 1


class RecentlyUsed(Generic[_Key, _Value]):
    """Values by key: the last ones that were used, at least `generation_max` of them.

    Args:
        generation_max: Weight of the values in a generation, which the last one may exceed. Two
            generations are held at most.
        weight_of: Returns how much a value counts, always the same; usually each counts 1.

    Attributes:
        recent: What was used last; to look into, not to be changed. A key that is not there
            may still be found by `get`.
    """

    def __init__(self, generation_max: int, weight_of: Callable[[_Value], int] = _one) -> None:
        self.recent: dict[_Key, _Value] = {}
        self._room = generation_max
        self._weight_of = weight_of
        self._older: dict[_Key, _Value] = {}
        self._generation_max = generation_max

    def __len__(self) -> int:
        """Return how many values are held; one that was used again may count twice."""
        return len(self.recent) + len(self._older)

    def get(self, key: _Key) -> _Value | None:
        """Return the value of a key, or None."""
        value = self.recent.get(key)
        if value is None:
            value = self._older.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: _Key, value: _Value) -> None:
        """Remember a value, which is not None; others may be forgotten for it."""
        self._forget_recent(key)
        if self._room <= 0:
            self._older, self.recent = self.recent, {}
            self._room = self._generation_max
        self._room -= self._weight_of(value)
        self.recent[key] = value

    def forget(self, key: _Key) -> None:
        """Forget one key, if it is known."""
        self._forget_recent(key)
        self._older.pop(key, None)

    def clear(self) -> None:
        """Forget everything, also for a caller that still looks into `recent`."""
        self.recent.clear()
        self._older.clear()
        self._room = self._generation_max

    def _forget_recent(self, key: _Key) -> None:
        value = self.recent.pop(key, None)
        if value is not None:
            self._room += self._weight_of(value)
