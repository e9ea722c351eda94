"""Marks of the messages that belong to transactions, until the log holds them."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Piece(NamedTuple):
    """Consecutive messages `[start, end)` that may share a chunk.

    `transaction_id` is empty for messages outside any transaction.
    """

    start: int
    end: int
    transaction_id: bytes


class TransactionMarks:
    """Marked offset ranges, ascending; empty if no transaction publishes to the queue."""

    def __init__(self) -> None:
        self._marks: deque[Piece] = deque()

    def __bool__(self) -> bool:
        """Return whether anything is marked."""
        return bool(self._marks)

    def add(self, start: int, end: int, transaction_id: bytes) -> None:
        """Mark `[start, end)`, which lies above all marks; extend the last mark if it continues."""
        if start == end:
            return
        if self._marks:
            last = self._marks[-1]
            assert last.end <= start, "marks must be added in ascending order"
            if last.end == start and last.transaction_id == transaction_id:
                self._marks[-1] = Piece(last.start, end, transaction_id)
                return
        self._marks.append(Piece(start, end, transaction_id))

    def put_back(self, pieces: list[Piece]) -> None:
        """Restore the marks that the last call of `pieces` removed and returned."""
        for piece in reversed(pieces):
            # A mark that reaches beyond the last piece was not removed.
            is_there = bool(self._marks) and self._marks[0].start < piece.end
            if piece.transaction_id and not is_there:
                self._marks.appendleft(piece)

    def forget(self, end: int) -> None:
        """Forget the marks below `end`: the log holds these messages."""
        while self._marks and self._marks[0].start < end:
            mark = self._marks.popleft()
            if end < mark.end:
                self._marks.appendleft(mark._replace(start=end))
                return

    def pieces(self, start: int, end: int) -> list[Piece]:
        """Cut `[start, end)` where a transaction begins or ends; remove the marks below `end`."""
        pieces: list[Piece] = []
        while self._marks and self._marks[0].start < end:
            mark = self._marks[0]
            if start < mark.start:
                pieces.append(Piece(start, mark.start, b""))
            start = max(start, mark.start)
            if start < mark.end:
                pieces.append(Piece(start, min(mark.end, end), mark.transaction_id))
            start = min(mark.end, end)
            if mark.end > end:
                break
            self._marks.popleft()
        if start < end:
            pieces.append(Piece(start, end, b""))
        return pieces
