"""Columns of fields that lie somewhere in one buffer, in ascending order.

The trick: an Arrow array over the whole buffer, in which each field is an element and what lies
between two fields is one too; taking every second element copies the fields, and nothing else,
without a loop in Python.
"""

import numpy as np
import pyarrow as pa

from appendlog.spark.decoding.octets import Integers, Mask, Octets


def picked_octets(
    octets: Octets, starts: Integers, stops: Integers, is_present: Mask | None = None
) -> pa.Array:
    """Return the octets `[start, stop)` of each row, null where there are none.

    Args:
        octets: Fewer than 2 GiB.
        starts: Ascending.
        stops: Not below their starts, not above the next start.
        is_present: None when all are; starts and stops of those absent have to ascend too.
    """
    count = len(starts)
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = stops
    bounds[-1] = stops[-1] if count else 0
    elements = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(octets)]
    )
    fields = np.arange(0, 2 * count, 2, dtype=np.int32)
    return elements.take(pa.array(fields, mask=None if is_present is None else ~is_present))


def picked_column(
    arrow_type: pa.DataType,
    octets: Octets,
    starts: Integers,
    stops: Integers,
    is_present: Mask | None = None,
) -> pa.Array:
    """Return the same as octets or as text; U+FFFD stands in place of what is not UTF-8."""
    fields = picked_octets(octets, starts, stops, is_present)
    try:
        return fields.cast(arrow_type)
    except pa.ArrowInvalid:
        texts = (
            None if raw is None else raw.decode("utf-8", "replace") for raw in fields.to_pylist()
        )
        return pa.array(texts, arrow_type)
