"""Selection of the files that are segments of a log, among files with such names.

People copy files between directories, rename them and put old ones back; a tool leaves an empty
one. A file name alone proves nothing: such a file would seem to cover offsets that other files
hold. So a file is trusted if its footer fits the names of its neighbours, which is all that an
intact log needs. If it does not fit, its header and its chunks decide.

A *foreign file* has a segment's name, but is not a segment of the log. The log never reads, changes
or removes it, and draws no conclusion about offsets from its name.

Source: docs/log-format.md, section 9.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from appendlog.files.descriptors import Borrowed, Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.segment_header import (
    SEGMENT_HEADER_BYTES_MAX,
    SegmentHeader,
    decode_segment_header,
    segment_header_bytes,
)
from appendlog.segments.durable_end import DurableEnd, read_durable_end
from appendlog.segments.scan import SegmentScan
from appendlog.segments.sealed import read_footer, read_sealed
from appendlog.segments.segment import Segment, SegmentName, segment_names

LISTINGS_MAX: Final = 5
"""Maximum number of listings, if a listed file is removed before it is read."""


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """File with a segment's name that is not a segment of the log.

    Attributes:
        name: Base offset and generation in its file name.
        reason: Why it is not a segment of the log.
        header_name: Name from its header, if it is a segment of this log under a wrong name.
        missing: Offsets `[start, end)` of the log that no other file holds; None if there are none.
    """

    name: SegmentName
    reason: str
    header_name: SegmentName | None = None
    missing: tuple[int, int] | None = None


@dataclass(slots=True)
class OwnSegments:
    """Segments of one log, and the foreign files in its directory.

    Attributes:
        names: Names in order; of several generations of a segment, the newest valid one.
        foreign_files: Files that only have a segment's name, in order.
        sealed: Segments with a valid footer; for the last segment a footer proves nothing.
        headers: Headers that were read; None for a file without a valid one.
        listed: Names of all files in the directory; None if there is no directory.
        durable_end: Last valid slot of the `end` file, or None.
    """

    names: list[SegmentName] = field(default_factory=list)
    foreign_files: list[ForeignFile] = field(default_factory=list)
    sealed: dict[SegmentName, Segment] = field(default_factory=dict)
    headers: dict[SegmentName, SegmentHeader | None] = field(default_factory=dict)
    listed: list[str] | None = None
    durable_end: DurableEnd | None = None


def own_segments(
    directory: Path,
    identity: LogIdentity,
    filesystem: FileSystem,
    descriptors: Descriptors | None = None,
    open_flags: int = os.O_RDONLY,
) -> OwnSegments:
    """Find the files of a directory that are the segments of its log; changes nothing.

    Reads the footers of all segments but the last, and the headers of the first and the last. Reads
    more only if these do not fit. A directory that does not exist has no segments.

    Args:
        directory: Directory of the log.
        identity: Identity of the log.
        filesystem: File operations of the log.
        descriptors: Cache of open files; one of its own by default.
        open_flags: Flags of `open`.

    Raises:
        OSError: A file cannot be read.
        UnsupportedFormatError: A segment is of another format version.
    """
    # Not `or`: a cache without an open file is empty, and false.
    files = Descriptors(4) if descriptors is None else descriptors
    try:
        for _ in range(LISTINGS_MAX - 1):
            try:
                return _Listing(directory, identity, filesystem, files, open_flags).run()
            except OSError as error:
                # Asking first would cost each log that exists a system call.
                if not filesystem.exists(directory):
                    return OwnSegments()
                if not isinstance(error, FileNotFoundError):
                    raise
                # Retention or compaction removed the file, or it is a dangling link.
        return _Listing(directory, identity, filesystem, files, open_flags).run()
    finally:
        if descriptors is None:
            files.close()


def is_fitting(segment: Segment, following: int) -> bool:
    """Return whether a footer proves that a file is the segment of its name.

    Args:
        segment: Segment as its footer describes it.
        following: Base offset of the next segment.
    """
    summary = segment.summary
    return summary.end_offset == following and summary.first_offset >= segment.base_offset


class _Listing:
    """One pass over a directory."""

    def __init__(
        self,
        directory: Path,
        identity: LogIdentity,
        filesystem: FileSystem,
        descriptors: Descriptors,
        open_flags: int,
    ) -> None:
        self._directory = directory
        self._identity = identity
        self._filesystem = filesystem
        self._descriptors = descriptors
        self._open_flags = open_flags
        self._found = OwnSegments()
        self._headers = self._found.headers
        self._ends: dict[SegmentName, int | None] = {}

    def run(self) -> OwnSegments:
        found = self._found
        filesystem = self._filesystem
        found.durable_end = read_durable_end(
            filesystem, self._directory, self._identity.incarnation
        )
        found.listed = filesystem.listdir(self._directory)
        names = self._newest(segment_names(found.listed))
        misfits = self._misfits(names)
        names = [name for name in names if name not in misfits or self._is_own(name)]
        names = self._without_empty(names)
        found.names = self._without_covered(names)
        self._look_for_missing()
        found.foreign_files.sort(key=lambda foreign: foreign.name)
        return found

    def _newest(self, names: Sequence[SegmentName]) -> list[SegmentName]:
        """Return the newest valid generation of each segment, in order."""
        by_base: dict[int, list[SegmentName]] = {}
        for name in names:
            by_base.setdefault(name.base_offset, []).append(name)
        newest: list[SegmentName] = []
        for base in sorted(by_base):
            group = by_base[base]
            if len(group) > 1:
                group = [name for name in group if self._is_own(name)]
            whole = [name for name in group[1:] if self._headers[name] and self._sealed(name)]
            known = [name for name in group if self._headers.get(name)]
            newest += whole[-1:] or known[:1] or group[:1]
        return newest

    def _misfits(self, names: Sequence[SegmentName]) -> set[SegmentName]:
        """Return the segments that do not fit their neighbours, or have none."""
        misfits = {*names[:1], *names[-1:]}
        for at, name in enumerate(names[:-1]):
            following = names[at + 1]
            segment = self._sealed(name)
            if segment is None or not is_fitting(segment, following.base_offset):
                misfits |= {name, following}
        return misfits

    def _is_own(self, name: SegmentName) -> bool:
        """Return whether the header fits; a file without a readable header may be a segment."""
        path = self._directory / name.file_name
        try:
            with self._borrow(name) as descriptor:
                own_bytes = segment_header_bytes(self._identity)
                data = self._filesystem.read_all(descriptor, own_bytes, 0)
                header = decode_segment_header(data, path)
                if header is None:
                    # The header of another log may be longer.
                    data = self._filesystem.read_all(descriptor, SEGMENT_HEADER_BYTES_MAX, 0)
                    header = decode_segment_header(data, path)
        except IsADirectoryError:
            return self._leave(name, "it is a directory")
        self._headers[name] = header
        if header is None:
            return True
        if header.identity != self._identity:
            owner = header.identity
            whose = f"queue {owner.queue!r} in {owner.vhost!r}, incarnation {owner.incarnation}"
            return self._leave(name, f"its header says {whose}")
        header_name = SegmentName(header.base_offset, header.generation)
        if header_name != name:
            reason = f"its header says {header_name.file_name}"
            return self._leave(name, reason, header_name)
        return True

    def _without_empty(self, names: list[SegmentName]) -> list[SegmentName]:
        """Leave out files with neither a header nor a chunk: only their names say anything.

        Keep one that is in its place: where the one before ends, or where `end` says that it was.
        """
        kept: list[SegmentName] = []
        for name in names:
            if (
                self._headers.get(name, True) is not None
                or self._is_in_end_file(name)
                or (self._end(kept[-1]) == name.base_offset if kept else name is names[-1])
                or not self._is_empty(name)
            ):
                kept.append(name)
        return kept

    def _is_empty(self, name: SegmentName) -> bool:
        """Return whether only its name makes a file a segment; if so, record it as foreign."""
        if self._headers[name] is not None or self._end(name) is not None:
            return False
        self._leave(name, "it has no valid header, and no chunk of this log")
        return True

    def _without_covered(self, names: list[SegmentName]) -> list[SegmentName]:
        """Leave out segments whose offsets the one before holds: old files that were put back."""
        kept: list[SegmentName] = []
        for at, name in enumerate(names):
            before = self._known_end(kept[-1], name) if kept else 0
            following = names[at + 1].base_offset if at + 1 < len(names) else None
            if before > name.base_offset and self._is_covered(name, before, following):
                self._leave(name, f"{kept[-1].file_name} holds its offsets")
            else:
                kept.append(name)
        return kept

    def _is_covered(self, name: SegmentName, before: int, following: int | None) -> bool:
        if self._is_in_end_file(name):
            return False
        end = self._end(name) or name.base_offset
        # It is in its place if the next segment continues it and not the segment before.
        is_joint = end == following and before != following
        return end <= before and not is_joint

    def _known_end(self, name: SegmentName, following: SegmentName) -> int:
        """Return where a segment ends; reads the file only if it does not fit."""
        segment = self._sealed(name)
        if segment is not None and segment.end_offset == following.base_offset:
            return following.base_offset
        return self._end(name) or name.base_offset

    def _look_for_missing(self) -> None:
        """Find the offsets that only a file under a wrong name holds."""
        found = self._found
        for at, foreign in enumerate(found.foreign_files):
            renamed = foreign.header_name
            if renamed is None:
                continue
            end = self._end(foreign.name, renamed.base_offset)
            if end is None:
                continue
            start = renamed.base_offset
            for name in found.names:
                if name.base_offset <= start:
                    start = max(start, self._end(name) or 0)
            if start < end:
                found.foreign_files[at] = replace(foreign, missing=(start, end))

    def _end(self, name: SegmentName, base_offset: int | None = None) -> int | None:
        """Return where a file's chunks of this log end; None without chunks and header."""
        if name not in self._ends:
            self._ends[name] = self._look_for_end(
                name, name.base_offset if base_offset is None else base_offset
            )
        return self._ends[name]

    def _look_for_end(self, name: SegmentName, base_offset: int) -> int | None:
        salt = self._identity.salt
        end = None
        if self._headers.get(name, True):
            end = base_offset
        with self._borrow(name) as descriptor:
            footer = read_footer(self._filesystem, descriptor, salt, base_offset)
            if footer is not None:
                return footer[0].end_offset
            size = self._filesystem.size(descriptor)
            scan = SegmentScan(self._filesystem, descriptor, size, salt)
            position: int | None = min(segment_header_bytes(self._identity), size)
            while position is not None and position < size:
                chunk = scan.chunk_at(position, end or base_offset)
                if chunk is None:
                    position = scan.find_chunk(position, end or base_offset)
                else:
                    end = chunk.end_offset
                    position += chunk.chunk_bytes
        return end

    def _sealed(self, name: SegmentName) -> Segment | None:
        sealed = self._found.sealed
        if name not in sealed:
            try:
                segment = read_sealed(
                    self._directory,
                    self._identity,
                    name,
                    self._filesystem,
                    self._descriptors,
                    self._open_flags,
                )
            except IsADirectoryError:
                return None
            if segment is not None:
                sealed[name] = segment
        return sealed.get(name)

    def _borrow(self, name: SegmentName) -> Borrowed:
        path = self._directory / name.file_name
        return self._descriptors.borrow(self._filesystem, path, self._open_flags)

    def _is_in_end_file(self, name: SegmentName) -> bool:
        durable = self._found.durable_end
        return (
            durable is not None
            and durable.position > 0
            and durable.segment_base_offset == name.base_offset
        )

    def _leave(
        self, name: SegmentName, reason: str, header_name: SegmentName | None = None
    ) -> bool:
        """Record a file as foreign; return False: it is not the segment of its name."""
        self._found.foreign_files.append(ForeignFile(name, reason, header_name))
        return False
