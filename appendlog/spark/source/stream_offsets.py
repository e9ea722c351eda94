"""Offsets of a stream, as the JSON that Spark keeps in its checkpoint.

    {"orders": {"0": 50000, "from": 100, "incarnation": "0c3c...", "version": 1, "vhost": "/"}}

The form is Kafka's (queue, partition, next offset), with additional keys inside each queue's
object, where they cannot collide with names of queues. Checkpoints outlive releases, so the form is
for ever: new keys may be added, and no key is ever removed or changed. `version` increases only if
an older reader must not continue.

`from` is the offset at which the stream began with this incarnation of the queue. Spark's
checkpoint only has the *end* of each batch. After a crash, Spark plans the last batch again. If
that batch was the stream's first, or the first with a queue, only `from` has its beginning:
"latest" is another offset by then.

A stream that has not begun is `{}`. A stream that reads no queue yet has an entry without an
offset. So the start of a query without a checkpoint always differs from the end of its first batch.
Spark then makes a first batch, if necessary without rows, and the beginning is in the checkpoint.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self
from uuid import UUID

from appendlog.spark.errors import CheckpointError
from appendlog.spark.schema.columns import PARTITION

VERSION: Final = 1
_OFFSET: Final = str(PARTITION)
_NO_QUEUE: Final = ""
NOT_BEGUN: Final[dict[str, Any]] = {}
"""Offset that Spark gets for a stream without a checkpoint."""


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Position of a stream in the log of one incarnation of a queue.

    Attributes:
        incarnation: Identity of the queue.
        start_offset: Offset at which the stream began with this incarnation.
        offset: Next offset to read; at or above the start.
    """

    incarnation: UUID
    start_offset: int
    offset: int


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Offsets `[start_offset, end_offset)` of one queue that a batch reads; never empty.

    Attributes:
        queue: Name of the queue.
        incarnation: Identity of the queue.
        start_offset: First offset.
        end_offset: End of the range, exclusive.
    """

    queue: str
    incarnation: UUID
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """Positions of a stream in all of its queues.

    Attributes:
        vhost: Virtual host of all queues.
        places: Position in each queue, by name.
    """

    vhost: str
    places: Mapping[str, QueuePlace] = field(default_factory=dict)

    def to_json(self) -> dict[str, dict[str, int | str]]:
        """Return the JSON that Spark keeps; the same positions always give the same text.

        Spark compares the texts to find out whether there is something to read.
        """
        if not self.places:
            return {_NO_QUEUE: {"version": VERSION, "vhost": self.vhost}}
        return {
            queue: {
                _OFFSET: place.offset,
                "from": place.start_offset,
                "incarnation": str(place.incarnation),
                "version": VERSION,
                "vhost": self.vhost,
            }
            for queue, place in sorted(self.places.items())
        }

    @classmethod
    def from_json(cls, found: object, vhost: str) -> Self:
        """Parse the JSON that `to_json` of this or an older release made.

        Args:
            found: JSON value from a checkpoint; not trusted.
            vhost: Virtual host that the query reads.

        Raises:
            CheckpointError: The value is of another source, another virtual host, or a newer
                release.
        """
        if not isinstance(found, dict):
            raise CheckpointError(f"not an object but {found!r:.100}")
        if set(found) == {_NO_QUEUE} and isinstance(found[_NO_QUEUE], dict):
            fields = found[_NO_QUEUE]
            if _OFFSET not in fields:
                _check(_NO_QUEUE, fields, vhost)
                return cls(vhost)
        return cls(vhost, {queue: _place(queue, fields, vhost) for queue, fields in found.items()})


def ranges_between(start: StreamOffsets, end: StreamOffsets) -> Iterator[QueueRange]:
    """Return the ranges of the batch between two offsets; they depend on nothing else.

    If the start does not have a queue, or another incarnation of it, the range begins at the
    `from` of the end.

    Raises:
        CheckpointError: The end is below the start.
    """
    for queue, last in sorted(end.places.items()):
        first = start.places.get(queue)
        if first is None or first.incarnation != last.incarnation:
            low = last.start_offset
        else:
            low = first.offset
        if low > last.offset:
            raise CheckpointError(
                f"queue {queue!r}: a batch that ends at offset {last.offset} begins at {low}"
            )
        if low < last.offset:
            yield QueueRange(queue, last.incarnation, low, last.offset)


def _place(queue: str, fields: object, vhost: str) -> QueuePlace:
    if not isinstance(fields, dict) or _OFFSET not in fields or "incarnation" not in fields:
        raise CheckpointError(
            f"queue {queue!r}: expected an object with the keys {_OFFSET!r} and 'incarnation', "
            f"found {fields!r:.100}"
        )
    _check(queue, fields, vhost)
    offset = _number(queue, fields, _OFFSET)
    start = _number(queue, fields, "from")
    if start > offset:
        raise CheckpointError(f"queue {queue!r}: offset {offset} is below its 'from' {start}")
    try:
        incarnation = UUID(fields["incarnation"])
    except (ValueError, AttributeError, TypeError) as error:
        raise CheckpointError(
            f"queue {queue!r}: {fields['incarnation']!r:.100} is no incarnation"
        ) from error
    return QueuePlace(incarnation, start, offset)


def _check(queue: str, fields: Mapping[str, Any], vhost: str) -> None:
    version = _number(queue, fields, "version")
    if version > VERSION:
        raise CheckpointError(
            f"queue {queue!r}: written by a newer release: version {version}, "
            f"the highest that is known here is {VERSION}"
        )
    if fields.get("vhost") != vhost:
        raise CheckpointError(
            f"queue {queue!r} of virtual host {fields.get('vhost')!r:.300}, "
            f"the option vhost says {vhost!r}"
        )


def _number(queue: str, fields: Mapping[str, Any], key: str) -> int:
    value = fields.get(key)
    if type(value) is not int or value < 0:
        raise CheckpointError(f"queue {queue!r}: {key!r} is {value!r:.100}, no whole number >= 0")
    return value
