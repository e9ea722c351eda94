"""Content of a stream's batch, in sums by which a batch that comes again is known.

The sums do not depend on the order of the rows, nor on how Spark divides them into partitions:
neither need be the same when Spark repeats a batch. Numbers with a fraction are left out, because a
sum of them depends on the order in which Spark adds them up.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MASK: Final = (1 << 64) - 1
_RESULT: Final = "sums string"


@dataclass(frozen=True, slots=True)
class BatchContent:
    """Content of a batch, as a count and a digest.

    Attributes:
        rows: Number of rows.
        digest: Digest of all sums, 0 to 2^63 - 1.
    """

    rows: int
    digest: int


class ContentSums:
    """Adds up the rows of a batch, or of a part of it."""

    def __init__(self) -> None:
        self._sums: list[int] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; all have the same columns."""
        self._add([batch.num_rows, *_sums(batch.columns)])

    def add_text(self, text: str) -> None:
        """Add what `as_text` returned for another part."""
        self._add(json.loads(text))

    def as_text(self) -> str:
        """Return the sums so that another process can add them."""
        return json.dumps(self._sums)

    def content(self) -> BatchContent:
        """Return what was added so far."""
        digest = hashlib.sha256(self.as_text().encode()).digest()
        return BatchContent(sum(self._sums[:1]), int.from_bytes(digest[:8], "big") >> 1)

    def _add(self, sums: Sequence[int]) -> None:
        pairs = zip_longest(self._sums, sums, fillvalue=0)
        self._sums = [(one + other) & _MASK for one, other in pairs]


def content_of(rows: "DataFrame") -> BatchContent:
    """Read a batch and return what it contains."""
    total = ContentSums()
    for row in rows.mapInArrow(_sum_rows, _RESULT).collect():
        total.add_text(row[0])
    return total.content()


def _sum_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    sums = ContentSums()
    for batch in batches:
        if batch.num_rows:
            sums.add(batch)
    yield pa.RecordBatch.from_pydict({"sums": [sums.as_text()]})


def _sums(columns: Sequence[pa.Array]) -> Iterator[int]:
    for column in columns:
        yield column.null_count
        yield from _sums_of_values(column.drop_null() if column.null_count else column)


def _sums_of_values(values: Any) -> Iterator[int]:  # noqa: ANN401 - an array of any kind
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        yield from _sums([values.storage])
    elif pa.types.is_dictionary(kind):
        yield from _sums([values.dictionary_decode()])
    elif pa.types.is_struct(kind):
        yield from _sums(values.flatten())
    elif pa.types.is_map(kind):
        yield from _of_integers(np.diff(np.asarray(values.offsets)))
        start, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        yield from _sums([values.keys[start:end], values.items[start:end]])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _of_integers(np.diff(np.asarray(values.offsets)))
        yield from _sums([values.flatten()])
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        yield from _of_octets(values, np.int64)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield from _of_octets(values, np.int32)
    elif pa.types.is_boolean(kind):
        yield values.true_count
    elif pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        yield from _of_numbers(values)


def _of_octets(values: Any, offset_type: type) -> Iterator[int]:  # noqa: ANN401
    if not len(values):
        yield from (0, 0, 0)
        return
    _, offsets, data = values.buffers()
    size = np.dtype(offset_type).itemsize
    ends: Any = np.frombuffer(offsets, offset_type, len(values) + 1, values.offset * size)
    yield from _of_integers(np.diff(ends))
    first, count = int(ends[0]), int(ends[-1] - ends[0])
    yield _sum(np.frombuffer(data, np.uint8, count, first)) if count else 0


def _of_integers(integers: Any) -> Iterator[int]:  # noqa: ANN401
    wide = integers.astype(np.uint64)
    yield _sum(wide)
    yield _sum(wide * wide)


def _of_numbers(values: Any) -> Iterator[int]:  # noqa: ANN401
    """Add up numbers, times and decimals as the words that Arrow stores them in."""
    if not len(values):
        yield from (0, 0)
        return
    width = values.type.byte_width
    word = min(width, 8)
    words: Any = np.frombuffer(
        values.buffers()[1], f"i{word}", len(values) * width // word, values.offset * width
    )
    yield from _of_integers(words)


def _sum(numbers: Any) -> int:  # noqa: ANN401
    return int(numbers.sum(dtype=np.uint64))
