"""How far a stream has read: the JSON that Spark keeps in its checkpoint.

    {"orders": {"0": 50000, "from": 100, "incarnation": "0c3c...", "version": 1, "vhost": "/"}}

Kafka's shape (queue, partition, next offset), with keys added inside each queue's object, where
no queue's name can meet them. It is written for ever: checkpoints outlive releases. So a key is
added with a new meaning for readers that know it, and none is ever removed or changed;
`version` grows only if an older reader must not go on.

`from` is where the stream began with this incarnation of the queue. Spark's checkpoint has the
*end* of each batch only: of a batch that was planned first, or that met a queue first, and is
planned again after a crash, the beginning is known from there and from nowhere else
("latest" is another offset by then).

A stream that has not begun is `{}`, one that reads no queue yet has an entry without an offset:
what a query without a checkpoint begins with always differs from its first batch's end, so Spark
has a first batch, if need be one without rows, and the beginning is in the checkpoint from then on.
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
"""What Spark gets for a stream without a checkpoint."""


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where a stream is in the log of one incarnation of a queue.

    Attributes:
        incarnation: Of the queue.
        start_offset: Where the stream began with it, inclusive.
        offset: Next one to read; at or above the start.
    """

    incarnation: UUID
    start_offset: int
    offset: int


@dataclass(frozen=True, slots=True)
class QueueRange:
    """What one batch reads of one queue: the offsets `[start_offset, end_offset)`, never empty.

    Attributes:
        queue: Name.
        incarnation: Of the queue.
        start_offset: Inclusive.
        end_offset: Exclusive.
    """

    queue: str
    incarnation: UUID
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """Where a stream is in each of its queues.

    Attributes:
        vhost: Virtual host of all of them.
        places: By queue.
    """

    vhost: str
    places: Mapping[str, QueuePlace] = field(default_factory=dict)

    def to_json(self) -> dict[str, dict[str, int | str]]:
        """Return what Spark keeps: the same text for the same places, whenever it is made.

        Spark compares texts to tell whether there is something new.
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
        """Return what `to_json` of this or an older release made.

        Args:
            found: Out of a checkpoint: anything.
            vhost: Virtual host that is read now.

        Raises:
            CheckpointError: It is not ours, of another virtual host, or of a newer release.
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
    """Return what the batch between two places reads, by queue; depends on nothing else.

    A queue (or an incarnation of it) that the start does not have is read from where the end
    says that the stream began with it.

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
