"""A manifest: what one commit added to an output, and what the output has with it.

Manifests are numbered from 0 without holes and never change. Each carries the sum of all up to
itself, so that the state of an output is one file to read, however many exports there were; what
a sum is made of is in the manifests before it. Written as canonical JSON (keys in order, no
spaces) with a checksum of itself: half a file, or a byte that rotted, is found.

Format: docs/spark.md, "Layout of an output".
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

MANIFEST_VERSION: Final = 1
_CHECKSUM: Final = "checksum"

Kind = Literal["export", "adopted", "fence", "forgotten"]
"""What a manifest is for: an export; files that an earlier version has written; nothing but
its number, so that a job that was killed can never commit under it; or files that are taken out
again, because they are damaged or gone."""


class OutputDamagedError(OutputError):
    """What an output says of itself cannot be read, or a part of it is gone."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file that belongs to the output.

    Attributes:
        path: In the store, for good.
        source: Where its task left it, below the folder of the job; None: it was never there.
        start: Of the offsets that it covers, inclusive.
        end: Exclusive.
        rows: Messages in it.
        bytes: Its size.
        min_ts: Lowest `timestamp` in it, nanoseconds since 1970 in UTC; None: not known.
        max_ts: Highest.
        sha256: Of its bytes; None: not known, as it was adopted.
        missing: Offsets of its range that the log did not have.
        corrupt: Offsets of its range in damaged parts of the log.
        excluded: Offsets of its range that were not asked for.
        metadata: What else its task said of it.
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
    """The sum of the manifests up to one.

    Attributes:
        covered: Offsets that are in the output, or are accounted for.
        exports: Commits that added something.
        files: Files.
        rows: Messages in them.
        bytes: Their size.
        missing: Offsets that the log did not have.
        corrupt: Offsets in damaged parts of the log.
        excluded: Offsets that were not asked for.
        last_export: When something was added last, ISO 8601 in UTC; None: never.
        include: Which messages were asked for, every time; None while there is nothing.
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
        number: From 0, without holes.
        kind: What it is for.
        vhost: Virtual host of the queue.
        queue: The queue.
        incarnation: Of the queue: offsets of another one are others.
        start: First offset that was asked for.
        end: End of what was asked for, exclusive.
        ranges: Offsets that it adds.
        files: With these rows.
        gaps: Offsets of `ranges` that the log did not have; those inside of files may be left out.
        corrupt: Damaged parts of the log, likewise.
        missing: How many offsets the log did not have, in files and between them.
        corrupt_offsets: How many are in damaged parts.
        excluded: How many were not asked for.
        include: Which messages were asked for: `all`, `acked`, `unacked`.
        schema_version: Of the rows.
        job: Of the run that wrote it.
        created: When, ISO 8601 in UTC.
        total: The sum up to and with this one.
        forgotten: Files of earlier manifests that are not in the output any more; their offsets
            are as if they had never been there.
        version: Of this format.
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
    version: int = MANIFEST_VERSION

    @property
    def rows(self) -> int:
        """Return how many messages it adds."""
        return sum(file.rows for file in self.files)


def add_to(total: Total, manifest: Manifest) -> Total:
    """Return the sum with one more manifest, whose own `total` does not matter."""
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
    """Return a manifest that adds nothing to the last one but its number."""
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
    """Return a time in UTC as a manifest has it: ISO 8601, microseconds, `Z`."""
    return now.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def encode_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as the bytes of its file."""
    document = asdict(manifest) | {"incarnation": str(manifest.incarnation)}
    return _canonical(document | {_CHECKSUM: _checksum(document)})


def decode_manifest(data: bytes, where: str) -> Manifest:
    """Return the manifest in a file.

    Args:
        data: The whole file.
        where: What to call it in errors.

    Raises:
        OutputDamagedError: It is no manifest, or not as it was written.
        OutputError: It is of a newer version.
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
    """Leave out what a later amqp-server has added without a new version."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in document.items() if name in names}


def _files(documents: Sequence[Mapping[str, Any]]) -> tuple[ListedFile, ...]:
    return tuple(ListedFile(**_known(ListedFile, each)) for each in documents)


def _ranges(values: Sequence[Sequence[int]]) -> tuple[Range, ...]:
    return tuple((start, end) for start, end in values)


def _checksum(document: Mapping[str, Any]) -> str:
    return f"sha256:{hashlib.sha256(_canonical(document)).hexdigest()}"


def _canonical(document: Mapping[str, Any]) -> bytes:
    # ASCII: names that are no UTF-8 are kept as the escapes of their surrogates.
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{text}\n".encode("ascii")
