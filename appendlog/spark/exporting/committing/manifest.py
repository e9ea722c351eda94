"""A manifest: what one commit added to an output, and the sum of the output with it.

Manifests are numbered from 0 without holes and never change. Each has the sum of all manifests up
to itself. So the state of an output is one file to read, however many exports there were; the
earlier manifests have the parts of the sum. A manifest is canonical JSON (ordered keys, no spaces)
with a checksum of itself, which detects half a file or a flipped bit.

Format: docs/spark-output.md, "Manifests".
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID, uuid4

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.destination import CorruptRange
from appendlog.spark.planning.ranges import Range, join_ranges, offsets_in, subtract_ranges

MANIFEST_VERSION: Final = 2
"""Version 2 has siblings: several files of one range. A manifest without them is of version 1, so
that an earlier amqp-server can read it."""
_CHECKSUM: Final = "checksum"

Kind = Literal["export", "adopted", "fence", "forgotten"]
"""Purpose of a manifest: an export; the adoption of files of an earlier version; a fence, which
only takes a number so that a killed job can never commit under it; or the removal of files that
are damaged or gone."""


class OutputDamagedError(OutputError):
    """A manifest of an output cannot be read, or is gone."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file that belongs to the output.

    Files of one range are siblings: together they have the rows of the range, and each offset
    without a row is counted in one of them.

    Attributes:
        path: Final path in the store.
        source: Path below the folder of the job, where its task wrote it; None for adopted files.
        start: First offset that the file covers.
        end: End of the covered offsets, exclusive.
        rows: Number of messages.
        bytes: Size of the file in bytes.
        min_ts: Lowest `timestamp`, nanoseconds since 1970 in UTC; None if unknown.
        max_ts: Highest `timestamp`, likewise.
        sha256: Digest of the file; None for adopted files.
        missing: Offsets of its range that the log did not have.
        corrupt: Offsets of its range in damaged parts of the log.
        excluded: Offsets of its range that the user did not ask for.
        metadata: Further attributes from its task.
    """

    path: str
    source: str | None
    start: int
    end: int
    rows: int
    bytes: int
    min_ts: int | None
    max_ts: int | None
    sha256: str | None
    missing: int = 0
    corrupt: int = 0
    excluded: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Total:
    """Sum of the manifests up to one.

    Attributes:
        covered: Offsets that are in the output, or are accounted for.
        exports: Number of commits that added something.
        files: Number of files.
        rows: Messages in the files.
        bytes: Size of the files in bytes.
        missing: Offsets that the log did not have.
        corrupt: Offsets in damaged parts of the log.
        excluded: Offsets that the user did not ask for.
        last_export: Time of the last export that added something, ISO 8601 in UTC; None if never.
        include: Messages that every export was asked for; None if there was no export.
    """

    covered: tuple[Range, ...] = ()
    exports: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    missing: int = 0
    corrupt: int = 0
    excluded: int = 0
    last_export: str | None = None
    include: str | None = None

    @property
    def is_exact(self) -> bool:
        """Whether every covered offset is accounted for."""
        known = self.rows + self.missing + self.corrupt + self.excluded
        return known == offsets_in(self.covered)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One commit.

    Attributes:
        number: Number, from 0 without holes.
        kind: Purpose of the manifest.
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        incarnation: Identity of the queue: offsets of another incarnation are other offsets.
        start: First offset that the user asked for.
        end: End of the offsets that the user asked for, exclusive.
        ranges: Offsets that the commit adds.
        files: Files with these offsets.
        gaps: Offsets of `ranges` that the log did not have; those inside of files may be left out.
        corrupt: Damaged parts of the log, likewise.
        missing: Number of offsets that the log did not have, in files and between them.
        corrupt_offsets: Number of offsets in damaged parts of the log.
        excluded: Number of offsets that the user did not ask for.
        include: Messages that the user asked for: `all`, `acked`, `unacked`.
        schema_version: Version of the rows' schema.
        job: Id of the run that wrote the manifest.
        created: Time of the commit, ISO 8601 in UTC.
        total: Sum of all manifests up to and with this one.
        forgotten: Files of earlier manifests that are no longer in the output; their offsets are
            not covered any more.
    """

    number: int
    kind: Kind
    vhost: str
    queue: str
    incarnation: UUID
    start: int
    end: int
    ranges: tuple[Range, ...]
    files: tuple[ListedFile, ...]
    gaps: tuple[Range, ...]
    corrupt: tuple[CorruptRange, ...]
    missing: int
    corrupt_offsets: int
    excluded: int
    include: str
    schema_version: int
    job: str
    created: str
    total: Total
    forgotten: tuple[ListedFile, ...] = ()

    @property
    def version(self) -> int:
        """Return the version of the format that this manifest needs."""
        files = (*self.files, *self.forgotten)
        return 1 if len({(file.start, file.end) for file in files}) == len(files) else 2

    @property
    def rows(self) -> int:
        """Return the number of messages that the manifest adds."""
        return sum(file.rows for file in self.files)


def add_to(total: Total, manifest: Manifest) -> Total:
    """Return the sum with one more manifest; ignores the `total` of that manifest."""
    gone = manifest.forgotten
    left = subtract_ranges(total.covered, join_ranges((file.start, file.end) for file in gone))
    return Total(
        covered=tuple(join_ranges((*left, *manifest.ranges))),
        exports=total.exports + bool(manifest.ranges),
        files=total.files + len(manifest.files) - len(gone),
        rows=total.rows + manifest.rows - sum(file.rows for file in gone),
        bytes=total.bytes + sum(f.bytes for f in manifest.files) - sum(f.bytes for f in gone),
        missing=total.missing + manifest.missing - sum(file.missing for file in gone),
        corrupt=total.corrupt + manifest.corrupt_offsets - sum(file.corrupt for file in gone),
        excluded=total.excluded + manifest.excluded - sum(file.excluded for file in gone),
        last_export=manifest.created if manifest.ranges else total.last_export,
        include=manifest.include if manifest.ranges else total.include,
    )


def fence_after(last: Manifest, now: datetime) -> Manifest:
    """Return a manifest that only takes the number after the last one."""
    at = last.total.covered[-1][1] if last.total.covered else 0
    return replace(
        last,
        number=last.number + 1,
        kind="fence",
        start=at,
        end=at,
        ranges=(),
        files=(),
        gaps=(),
        corrupt=(),
        missing=0,
        corrupt_offsets=0,
        excluded=0,
        forgotten=(),
        job=uuid4().hex,
        created=time_text(now),
    )


def time_text(now: datetime) -> str:
    """Return a time in UTC in the form of manifests: ISO 8601, microseconds, `Z`."""
    return now.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def encode_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as the bytes of its file."""
    document = asdict(manifest)
    document |= {"incarnation": str(manifest.incarnation), "version": manifest.version}
    return _canonical(document | {_CHECKSUM: _checksum(document)})


def decode_manifest(data: bytes, where: str) -> Manifest:
    """Return the manifest in a file.

    Args:
        data: Content of the file.
        where: Name of the file, for errors.

    Raises:
        OutputDamagedError: The file is no manifest, or is damaged.
        OutputError: The manifest is of a newer version.
    """
    try:
        document = json.loads(data)
        version = document["version"]
        if isinstance(version, int) and version > MANIFEST_VERSION:
            raise OutputError(
                f"{where}: a manifest of version {version}, this amqp-server knows version "
                f"{MANIFEST_VERSION}: use the newer amqp-server that wrote it"
            )
        expected = document.pop(_CHECKSUM)
        if _checksum(document) != expected:
            raise OutputDamagedError(f"{where}: damaged: its checksum is not that of its content")
        return _manifest(document)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise OutputDamagedError(f"{where}: damaged: not a manifest ({error!r})") from error


def _manifest(document: dict[str, Any]) -> Manifest:
    total = document["total"]
    known = document | {
        "incarnation": UUID(document["incarnation"]),
        "ranges": _ranges(document["ranges"]),
        "files": _files(document["files"]),
        "forgotten": _files(document.get("forgotten", ())),
        "gaps": _ranges(document["gaps"]),
        "corrupt": tuple(CorruptRange(**_known(CorruptRange, c)) for c in document["corrupt"]),
        "total": Total(**_known(Total, total | {"covered": _ranges(total["covered"])})),
    }
    return Manifest(**_known(Manifest, known))


def _known(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out keys that a later amqp-server has added without a new version."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in document.items() if name in names}


def _files(documents: Sequence[Mapping[str, Any]]) -> tuple[ListedFile, ...]:
    return tuple(ListedFile(**_known(ListedFile, each)) for each in documents)


def _ranges(values: Sequence[Sequence[int]]) -> tuple[Range, ...]:
    return tuple((start, end) for start, end in values)


def _checksum(document: Mapping[str, Any]) -> str:
    return f"sha256:{hashlib.sha256(_canonical(document)).hexdigest()}"


def _canonical(document: Mapping[str, Any]) -> bytes:
    # ASCII keeps names that are not UTF-8 as the escapes of their surrogates.
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{text}\n".encode("ascii")
