"""Segments of a log, each read when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from appendlog.segments.segment import Segment, SegmentName


class LookedUpSegments(Sequence[Segment]):
    """Segments of one log, oldest first; only their names are known at first.

    In a log with a thousand segments, a reader of a hundred offsets opens one file.

    Args:
        names: Names of the segments, in order.
        look: Returns a segment from its file; called once for each, at first use.
    """

    def __init__(
        self, names: Sequence[SegmentName], look: Callable[[SegmentName], Segment]
    ) -> None:
        self._names = names
        self._look = look
        self._seen: dict[int, Segment] = {}

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, at: int) -> Segment: ...
    @overload
    def __getitem__(self, at: slice) -> list[Segment]: ...
    def __getitem__(self, at: int | slice) -> Segment | list[Segment]:
        """Return a segment, or several.

        Raises:
            OSError: A file cannot be read, or was removed since the listing.
        """
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        place = range(len(self))[at]
        segment = self._seen.get(place)
        if segment is None:
            segment = self._look(self._names[place])
            if place + 1 < len(self):
                # A segment with a damaged end, or a compacted one, may not show how far it went.
                following = self._names[place + 1].base_offset
                segment.summary.end_offset = max(segment.summary.end_offset, following)
            self._seen[place] = segment
        return segment
